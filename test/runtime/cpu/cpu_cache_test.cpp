// Compiled kernels on disk: a second process neither lowers nor compiles.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "quern/base/env.h"
#include "quern/codegen/lower.h"
#include "quern/ir/text/parse.h"
#include "quern/runtime/cache/disk_cache.h"
#include "quern/runtime/cpu/code.h"
#include "quern/runtime/cpu/host.h"
#include "quern/runtime/device.h"
#include "test/runtime/temporary_folder.h"

namespace quern {
namespace {

using testing::ElementsAre;

class CpuCache : public testing::Test {
 protected:
  // Each element and the one before it, times two.
  const UOp kernel_ = parse(R"(SINK(END(STORE(INDEX(PARAM(; 0):float32*[8], r0[$n[1..8]]),
      INDEX(PARAM(; 1):float32*[8], r0):float32 * 2.0), r0); {name: "twice"}))");

  std::shared_ptr<const Program> compiled(const std::string& key) {
    Device& cpu = Device::get("CPU");
    return cpu.compile_source({key, [&] {
                                 lowered_++;
                                 return lower(kernel_, cpu.spec());
                               }});
  }
  static std::vector<float> result(const Program& program) {
    std::vector<float> out(8, -1), in = {1, 2, 3, 4, 5, 6, 7, 8};
    program.run(std::vector<Argument>{{out.data(), 32}, {in.data(), 32}}, {{"n", 3}});
    return out;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(temporary_.path()))
      all.push_back(entry.path().string());
    return all;
  }

  TemporaryFolder temporary_;
  env::Override on_{"CACHE", 1};
  env::Override folder_{"QUERN_CACHE_DIR", temporary_.path()};
  int lowered_ = 0;
};

TEST_F(CpuCache, OneKeyIsCompiledOnce) {
  for (int i = 0; i < 3; i++) EXPECT_THAT(result(*compiled("a")), ElementsAre(2, 4, 6, -1, -1, -1, -1, -1));
  EXPECT_EQ(lowered_, 1);
  EXPECT_EQ(files().size(), 1U);
  EXPECT_THAT(result(*compiled("b")), ElementsAre(2, 4, 6, -1, -1, -1, -1, -1));
  EXPECT_EQ(lowered_, 2);
}

TEST_F(CpuCache, KnownProgramsCheckTheirArguments) {
  for (int i = 0; i < 2; i++) {
    const auto program = compiled("a");
    std::vector<float> out(8), in(7);
    EXPECT_THROW(program->run(std::vector<Argument>{{out.data(), 32}, {in.data(), 28}}, {{"n", 3}}), Error);
    EXPECT_THROW(program->run(std::vector<Argument>{{out.data(), 32}}, {{"n", 3}}), Error);
    EXPECT_THROW(program->run(std::vector<Argument>{{out.data(), 32}, {out.data(), 32}}, {{"n", 9}}), Error);
  }
  EXPECT_EQ(lowered_, 1);
}

TEST_F(CpuCache, TheFormForOverlapsIsKeptToo) {
  for (int i = 0; i < 2; i++) {
    std::vector<float> memory = {1, 0, 0, 0, 0, 0, 0, 0, 0};
    const std::vector<Argument> arguments{{memory.data() + 1, 32}, {memory.data(), 32}};
    compiled("a")->run(arguments, {{"n", 8}});
    EXPECT_THAT(memory, ElementsAre(1, 2, 4, 8, 16, 32, 64, 128, 256));
  }
  EXPECT_EQ(lowered_, 2) << "once for each form";
}

TEST_F(CpuCache, DamagedEntriesAreReplaced) {
  compiled("a");
  ASSERT_EQ(files().size(), 1U);
  const auto size = std::filesystem::file_size(files()[0]);
  {
    std::fstream file(files()[0], std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(size) - 100);
    file.write("damage", 6);
  }
  EXPECT_THAT(result(*compiled("a")), ElementsAre(2, 4, 6, -1, -1, -1, -1, -1));
  EXPECT_EQ(lowered_, 2);
  std::filesystem::resize_file(files()[0], size / 2);
  EXPECT_THAT(result(*compiled("a")), ElementsAre(2, 4, 6, -1, -1, -1, -1, -1));
  EXPECT_EQ(lowered_, 3);
  compiled("a");
  EXPECT_EQ(lowered_, 3);
  EXPECT_EQ(std::filesystem::file_size(files()[0]), size);
}

TEST_F(CpuCache, ObjectsThatCannotBeLinkedAreMadeAgain) {
  compiled("a");
  const std::string key = fmt::format("CPU 1\n{}\na", cpu::compiler_key());
  DiskCache cache(temporary_.path(), 1 << 20);
  const std::optional<std::string> bytes = cache.find(key);
  ASSERT_TRUE(bytes) << "the key is another one";
  std::optional<cpu::Code> code = cpu::Code::from(*bytes);
  ASSERT_TRUE(code);
  for (const std::string& object : {std::string(), std::string(500, 'x'), code->object.substr(0, 300)}) {
    code->object = object;
    cache.store(key, code->bytes());  // with a checksum that is right
    const int before = lowered_;
    EXPECT_THAT(result(*compiled("a")), ElementsAre(2, 4, 6, -1, -1, -1, -1, -1));
    EXPECT_EQ(lowered_, before + 1);
  }
  EXPECT_EQ(cache.find(key), bytes);
}

TEST_F(CpuCache, OffMeansOff) {
  const env::Override off("CACHE", 0);
  compiled("a"), compiled("a");
  EXPECT_EQ(lowered_, 2);
  EXPECT_EQ(files().size(), 0U);
}

TEST_F(CpuCache, AFolderThatCannotBeUsedIsNoError) {
  const env::Override nowhere("QUERN_CACHE_DIR", "/dev/null/cache");
  EXPECT_THAT(result(*compiled("a")), ElementsAre(2, 4, 6, -1, -1, -1, -1, -1));
  compiled("a");
  EXPECT_EQ(lowered_, 2);
}

}  // namespace
}  // namespace quern
