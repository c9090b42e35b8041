// The functions of compile.h and disassemble.h for the core: they load the module that has LLVM, and call it.
#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <mutex>

#include "quern/base/codegen_version.h"
#include "quern/base/error.h"
#include "quern/runtime/cpu/compile.h"
#include "quern/runtime/cpu/disassemble.h"
#include "quern/runtime/cpu/llvm_module.h"

namespace quern::cpu {
namespace {

constexpr const char* kModule = "libquern_llvm.so";

constexpr CoreFunctions core_functions() {
  return {.version = nullptr,
          .destroy = &detail::destroy,
          .bounds = [](const UOp& u) { return u.bounds(); },
          .text = [](const LinearProgram& program) { return program.text(); },
          .storage_of = &storage_of,
          .index_of_address = &index_of_address,
          .rare_parts = &rare_parts,
          .host = &host};
}

// Where it may be, beside the folders that the system looks in (those that the program was linked with among
// them): with the program or library that this is part of, and where quern was configured to be installed.
Texts places() {
  Texts all = {kModule};
  Dl_info self = {};
  if (dladdr(reinterpret_cast<const void*>(&core_functions), &self) != 0 && self.dli_fname != nullptr) {
    std::error_code failed;
    const auto file = std::filesystem::canonical(self.dli_fname, failed);
    if (!failed) {
      all.push_back(file.parent_path() / kModule);
      all.push_back(file.parent_path().parent_path() / "lib" / kModule);
    }
  }
  all.push_back(std::filesystem::path(QUERN_LIBRARY_FOLDER) / kModule);
  return all;
}

const LlvmFunctions& load() {
  static CoreFunctions core = core_functions();
  core.version = kCodegenVersion;
  std::string problems;
  for (const std::string& place : places()) {
    void* const module = dlopen(place.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (module == nullptr) {
      problems +=
          fmt::format("\n  {}", dlerror());  // NOLINT(concurrency-mt-unsafe): glibc's is a thread's own
      continue;
    }
    const auto open = reinterpret_cast<OpenLlvm>(dlsym(module, kOpenLlvm));
    if (const LlvmFunctions* found = open == nullptr ? nullptr : open(&core); found != nullptr) return *found;
    problems += fmt::format("\n  {}: of another build of quern", place);
    dlclose(module);
  }
  throw DeviceError(
      fmt::format("CPU: kernels cannot be compiled, {} cannot be loaded:{}", kModule, problems));
}

const LlvmFunctions& module() {
  static const LlvmFunctions& loaded = load();  // if it throws, the next call tries again
  return loaded;
}

std::string result(Outcome outcome) {
  if (outcome.kind == Outcome::Kind::error) throw Error(outcome.text);
  if (outcome.kind == Outcome::Kind::internal_error) throw InternalError(outcome.text);
  return std::move(outcome.text);
}

}  // namespace

Code compile(const LinearProgram& program, bool no_alias) {
  Code code;
  result(module().compile(program, no_alias, code));
  return code;
}

std::string assembly_for(const LinearProgram& program, const std::string& triple,
                         const std::string& processor) {
  return result(module().assembly_for(program, triple, processor));
}

std::string llvm_text(const LinearProgram& program, bool optimised) {
  return result(module().llvm_text(program, optimised));
}

std::string disassembly(const Code& code) { return result(module().disassembly(code)); }

}  // namespace quern::cpu
