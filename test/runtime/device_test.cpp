// Devices by name, their memory, and files as memory.
#include "quern/runtime/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "quern/base/env.h"
#include "quern/ir/shape/movement.h"
#include "quern/runtime/buffer.h"
#include "quern/runtime/counters.h"
#include "test/error_of.h"

namespace quern {
namespace {

using testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }
std::string text_in(Buffer& buffer, size_t bytes) {
  std::string text(bytes, '?');
  buffer.copy_out(std::as_writable_bytes(std::span(text)));
  return text;
}

TEST(Device, Names) {
  EXPECT_EQ(Device::get("INTERP").name(), "INTERP");
  EXPECT_EQ(&Device::get("interp:0"), &Device::get("INTERP"));
  EXPECT_EQ(Device::get("INTERP:1").name(), "INTERP:1");
  EXPECT_NE(&Device::get("INTERP:1"), &Device::get("INTERP"));
  EXPECT_EQ(Device::canonical("disk:/tmp/File"), "DISK:/tmp/File");
  EXPECT_EQ(error_of([] { Device::get("ABACUS"); }),
            "there is no device 'ABACUS'; there are CPU, INTERP, LINEAR, CL, NULL, DISK:/path");
  EXPECT_THAT(error_of([] { Device::get(""); }), HasSubstr("there is no device ''"));
  EXPECT_THAT(error_of([] { Device::get("INTERP:x"); }), HasSubstr("expected a number"));
  EXPECT_THAT(error_of([] { Device::get("INTERP:99999999999999"); }), HasSubstr("expected a number"));
  EXPECT_THAT(error_of([] { Device::get("DISK"); }), HasSubstr("expected a path"));
}

TEST(Device, DefaultIsThatOfTheEnvironment) {
  {
    const env::Override device("DEVICE", "null:2");
    EXPECT_EQ(Device::default_name(), "NULL:2");
  }
  const env::Override device("DEVICE", "nothing");
  EXPECT_THROW(Device::default_name(), DeviceError);
}

TEST(Buffer, MemoryIsAllocatedWhenUsedAndFreedWithTheNode) {
  const int64_t before = GlobalCounters::mem_used;
  {
    const UOp node = new_buffer(dtypes::float32, 256, device_node("INTERP"));
    EXPECT_FALSE(has_buffer(node));
    const BufferPtr buffer = buffer_of(node);
    EXPECT_TRUE(has_buffer(node));
    EXPECT_EQ(GlobalCounters::mem_used, before);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->memory()) % 64, 0U);  // NOLINT
    EXPECT_EQ(GlobalCounters::mem_used, before + 1024);
    EXPECT_EQ(buffer_of(node), buffer);
  }
  EXPECT_EQ(GlobalCounters::mem_used, before);
}

TEST(Buffer, Slices) {
  const UOp node = new_buffer(dtypes::uint8, 8, device_node("INTERP"));
  const UOp part = UOp::make(Op::SLICE, dtypes::uint8, {node, UOp::index(2)}, 3);
  buffer_of(node)->copy_in(bytes_of("abcdefgh"));
  EXPECT_EQ(text_in(*buffer_of(part), 3), "cde");
  buffer_of(part)->copy_in(bytes_of("XYZ"));
  EXPECT_EQ(text_in(*buffer_of(node), 8), "abXYZfgh");
  EXPECT_THROW(buffer_of(UOp::make(Op::SLICE, dtypes::uint8, {node, UOp::index(6)}, 3)), Error);
  EXPECT_THROW(buffer_of(part)->copy_in(bytes_of("four")), Error);
}

TEST(Buffer, MemoryOfOthersIsKeptAlive) {
  auto owner = std::make_shared<std::string>("hello");
  const std::weak_ptr<std::string> watch = owner;
  {
    const UOp node = new_buffer(dtypes::uint8, 5, device_node("INTERP"));
    char* const data = owner->data();
    set_buffer(node,
               std::make_shared<Buffer>(Device::get("INTERP"), dtypes::uint8, 5, data, std::move(owner)));
    EXPECT_EQ(buffer_of(node)->memory(), data);
    EXPECT_FALSE(watch.expired());
    EXPECT_THROW(set_buffer(new_buffer(dtypes::uint8, 6, device_node("INTERP")), buffer_of(node)), Error);
  }
  EXPECT_TRUE(watch.expired());
  char byte = 0;
  EXPECT_THROW(Buffer(Device::get("NULL"), dtypes::uint8, 1, &byte, nullptr), DeviceError);
  EXPECT_THROW(Buffer(Device::get("INTERP"), dtypes::uint8, 1, nullptr, nullptr), Error);
}

TEST(Buffer, TooMuch) {
  Buffer huge(Device::get("INTERP"), dtypes::uint8, int64_t{1} << 58);
  EXPECT_THAT(error_of([&] { huge.memory(); }),
              HasSubstr("INTERP: out of memory, 288230376151711744 bytes were asked for"));
  EXPECT_THROW(Buffer(Device::get("INTERP"), dtypes::float64, int64_t{1} << 60), Error);
  EXPECT_THROW(Buffer(Device::get("INTERP"), dtypes::float64, -1), Error);
}

TEST(Null, HoldsNothing) {
  Buffer buffer(Device::get("NULL"), dtypes::uint8, int64_t{1} << 50);
  buffer.copy_in(bytes_of("abc"));
  EXPECT_EQ(error_of([&] { text_in(buffer, 3); }), "NULL holds no values: 3 bytes cannot be read from it");
}

class Disk : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("quern_disk_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  static Device& device(const std::string& path) { return Device::get("DISK:" + path); }
  std::filesystem::path folder_;
};

TEST_F(Disk, FilesAreMadeWrittenAndRead) {
  Buffer buffer(device(file("new")), dtypes::uint8, 10);
  EXPECT_EQ(text_in(buffer, 1), std::string(1, '\0'));  // what is not written yet is zeros, and makes no file
  buffer.copy_in(bytes_of("hello"));
  EXPECT_EQ(std::filesystem::file_size(file("new")), 10U);
  EXPECT_EQ(text_in(buffer, 6), std::string("hello\0", 6));
  const auto whole = std::make_shared<Buffer>(device(file("new")), dtypes::uint8, 10);
  Buffer part(whole, dtypes::uint8, 3, 1);
  EXPECT_EQ(text_in(part, 3), "ell");

  Buffer elsewhere(Device::get("INTERP"), dtypes::uint8, 10), third(device(file("third")), dtypes::uint8, 10);
  copy(elsewhere, buffer);
  EXPECT_EQ(text_in(elsewhere, 5), "hello");
  copy(third, buffer);
  EXPECT_EQ(text_in(third, 5), "hello");
}

TEST_F(Disk, WhatCannotBeRead) {
  std::ofstream(file("short")) << "abc";
  Buffer buffer(device(file("short")), dtypes::uint8, 8);
  EXPECT_EQ(text_in(buffer, 3), "abc");
  EXPECT_THAT(error_of([&] { text_in(buffer, 4); }),
              HasSubstr("the file has 3 bytes, 4 at offset 0 are wanted"));
  Buffer folder(device(folder_.string()), dtypes::uint8, 8);
  EXPECT_THAT(error_of([&] { text_in(folder, 4); }), HasSubstr("Is a directory"));
  EXPECT_THAT(error_of([&] { folder.copy_in(bytes_of("a")); }), HasSubstr("cannot write the file"));
  Buffer nowhere(device(file("no/such/folder")), dtypes::uint8, 8);
  EXPECT_THAT(error_of([&] { nowhere.copy_in(bytes_of("a")); }),
              HasSubstr("cannot write the file: No such file"));
  EXPECT_THAT(error_of([&] { device(file("short")).compile(UOp::sink({})); }), HasSubstr("runs no kernels"));
}

}  // namespace
}  // namespace quern
