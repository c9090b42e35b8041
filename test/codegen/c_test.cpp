// Programs as C, compiled by the C compiler of the system: the bits of eval(), and of INTERP.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "quern/codegen/lower.h"
#include "quern/ir/text/parse.h"
#include "quern/render/c_style/c.h"
#include "test/codegen/kernels.h"
#include "test/codegen/op_cases.h"

namespace quern {
namespace {

DeviceSpec of_c() {
  DeviceSpec spec;
  spec.has_fp8 = spec.has_bfloat16 = spec.has_float16 = false;
  spec.parallel.vector_bytes = 32;
  spec.has_fma = true;
  return spec;
}

// Many programs in one library: the compiler is started once.
class Library {
 public:
  size_t add(UOp kernel, const Opts& opts, OptChoice choice = OptChoice::given) {
    KernelArg arg = with_opts(kernel, opts).arg().kernel();
    arg.name = std::to_string(programs_.size());
    programs_.push_back(render_c(lower(kernel.replace({.arg = arg}), of_c(), choice)));
    return programs_.size() - 1;
  }

  void compile() {
    const auto folder =
        std::filesystem::temp_directory_path() / fmt::format("quern-c-{}-{}", getpid(), programs_.size());
    std::filesystem::create_directories(folder);
    std::ofstream file(folder / "all.c");
    std::set<std::string> helpers;
    for (const CProgram& p : programs_) {
      std::istringstream lines(p.source);
      for (std::string line; std::getline(lines, line);)
        if (!line.starts_with("static inline") || helpers.insert(line).second) file << line << "\n";
    }
    file.close();
    const std::string command = fmt::format(
        "cc -std=c11 -O1 -march=native -ffp-contract=off -Wall -Wextra -Werror "
        "-Wno-psabi -shared -fPIC -o {0}/all.so {0}/all.c -lm 2>&1",
        folder.string());
    ASSERT_EQ(std::system(command.c_str()), 0) << command;  // NOLINT(cert-env33-c,concurrency-mt-unsafe)
    library_ = dlopen((folder / "all.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr);
    std::filesystem::remove_all(folder);
  }

  void run(size_t number, std::span<const Argument> arguments) const {
    void* data[16] = {};
    for (size_t i = 0; i < arguments.size(); i++) data[i] = arguments[i].memory;
    const auto function = reinterpret_cast<void (*)(void**, const int64_t*)>(  // NOLINT
        dlsym(library_, programs_[number].entry.c_str()));
    ASSERT_NE(function, nullptr);
    function(data, nullptr);
  }
  const std::string& source(size_t number) const { return programs_[number].source; }

 private:
  std::vector<CProgram> programs_;
  void* library_ = nullptr;
};

bool has_compiler() { return std::system("cc --version > /dev/null 2>&1") == 0; }  // NOLINT

TEST(CProperty, SameBitsAsEval) {
  if (!has_compiler()) GTEST_SKIP() << "there is no C compiler, cc";
  Library library;
  for (const OpCase& what : all_op_cases()) {
    std::mt19937_64 random(3);
    (void)difference_from_eval(
        what, random, 300, [&](const UOp& kernel, std::span<const Argument>) { library.add(kernel, {}); });
  }
  library.compile();
  size_t next = 0;
  for (const OpCase& what : all_op_cases()) {
    std::mt19937_64 random(3);
    EXPECT_EQ(difference_from_eval(
                  what, random, 300,
                  [&](const UOp&, std::span<const Argument> arguments) { library.run(next, arguments); }),
              "")
        << library.source(next);
    next++;
  }
}

TEST(CProperty, AnyOptsComputeTheSame) {
  if (!has_compiler()) GTEST_SKIP() << "there is no C compiler, cc";
  constexpr OptKind kinds[] = {OptKind::UPCAST, OptKind::UNROLL, OptKind::THREAD};
  Library library;
  std::vector<std::pair<size_t, UOp>> all;
  std::mt19937 random(5);
  for (const KernelCase& c : kernel_cases()) {
    const UOp kernel = parse(c.text);
    all.emplace_back(library.add(kernel, {}), kernel);
    all.emplace_back(library.add(kernel, {}, OptChoice::best), kernel);
    for (int i = 0; i < 3; i++)
      all.emplace_back(library.add(kernel, random_opts_for(kernel, kinds, of_c(), random)), kernel);
  }
  library.compile();
  for (const auto& [number, kernel] : all) {
    Memory memory = memory_for(kernel);
    library.run(number, arguments_of(memory));
    EXPECT_EQ(memory, by_interp(kernel)) << library.source(number);
  }
}

TEST(C, Text) {
  const UOp kernel = parse(R"(
    %x = INDEX(PARAM(; 1):float32*[32], r0[$n[1..4]] * 8 + r1[8, REDUCE]):float32
    SINK(END(STORE(INDEX(PARAM(; 0):float32*[4], r0), REDUCE(%x, r1; {op: ADD}) * 0.5), r0); {name: "half sums"}))");
  EXPECT_EQ(render_c(lower(kernel, of_c())).source, R"(#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

void k_half_sums(float* restrict data0, const float* restrict data1, const int32_t var_n)
{
  float acc0;
  for (int32_t r0 = 0; r0 < var_n; r0++) {
    acc0 = 0.0f;
    int32_t v0 = (r0 * 8);
    for (int32_t r1 = 0; r1 < 8; r1++) {
      float v1 = acc0;
      float v2 = data1[(v0 + r1)];
      acc0 = (v1 + v2);
    }
    float v3 = acc0;
    data0[r0] = (v3 * 0.5f);
  }
}

void k_half_sums_entry(void** data, const int64_t* variables)
{
  (void)data, (void)variables;
  k_half_sums(data[0], data[1], (int32_t)variables[0]);
}
)");
}

}  // namespace
}  // namespace quern
