// The DISK device: its memory is a file. It is copied from and to; kernels do not run on it.
//
// Files are read and written by position and opened for each copy: nothing is kept open, and a file that
// another process cuts short is an Error here, where a mapping would end the process.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "quern/base/file.h"
#include "quern/runtime/devices.h"

namespace quern {
namespace {

class DiskDevice : public Device {
 public:
  DiskDevice(std::string name, std::string path)
      : Device(std::move(name), {.name = "DISK"}), path_(std::move(path)) {}

  // The file begins at this address, which nothing reads: only differences to it matter.
  using Device::compile;
  void* allocate(int64_t bytes) override {
    if (bytes < 0) throw Error(fmt::format("{}: {} bytes were asked for", name(), bytes));
    if (size_.load() == 0 && ::access(system_path(path_), F_OK) != 0 && errno == ENOENT) is_new_ = true;
    int64_t known = size_.load();
    while (known < bytes && !size_.compare_exchange_weak(known, bytes)) {
    }
    return base();
  }
  void free(void* /*memory*/, int64_t /*bytes*/) noexcept override {}

  void copy_in(void* to, const void* from, int64_t bytes) override {
    File file(*this, O_WRONLY, "write");
    const int64_t offset = offset_of(to), wanted = std::max(size_.load(), offset + bytes);
    if (file.size < wanted && ::ftruncate(file.descriptor, wanted) != 0) fail("write");
    transfer(bytes, "write", [&](int64_t done, size_t count) {
      return ::pwrite(file.descriptor, static_cast<const char*>(from) + done, count, offset + done);
    });
    is_new_ = false;
  }

  void copy_out(void* to, const void* from, int64_t bytes) override {
    if (is_new_) {  // nothing was written
      std::memset(to, 0, static_cast<size_t>(bytes));
      return;
    }
    File file(*this, O_RDONLY, "read");
    const int64_t offset = offset_of(from);
    if (offset + bytes > file.size)
      throw DeviceError(fmt::format("{}: the file has {} bytes, {} at offset {} are wanted", name(),
                                    file.size, bytes, offset));
    transfer(bytes, "read", [&](int64_t done, size_t count) {
      return ::pread(file.descriptor, static_cast<char*>(to) + done, count, offset + done);
    });
  }

  std::shared_ptr<const Program> compile(const UOp& /*kernel*/) override {
    throw DeviceError(
        fmt::format("{} runs no kernels: move the tensor to another device first, with to()", name()));
  }

 private:
  static constexpr uintptr_t kBase = 4096;
  static void* base() { return reinterpret_cast<void*>(kBase); }  // NOLINT
  static int64_t offset_of(const void* memory) {
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(memory) - kBase);  // NOLINT
  }

  [[noreturn]] void fail(const char* verb) const {
    throw DeviceError(fmt::format("{}: cannot {} the file: {}", name(), verb,
                                  std::strerror(errno)));  // NOLINT(concurrency-mt-unsafe)
  }

  struct File {
    File(const DiskDevice& device, int mode, const char* verb) {
      const int create = mode == O_WRONLY ? O_CREAT : 0;
      // Without O_NONBLOCK a pipe would wait for its other end.
      descriptor = ::open(system_path(device.path_), mode | create | O_CLOEXEC | O_NONBLOCK,
                          0666);  // NOLINT(*-vararg)
      if (descriptor < 0) device.fail(verb);
      struct stat facts = {};
      const int failed = ::fstat(descriptor, &facts);
      if (failed != 0 || !S_ISREG(facts.st_mode)) {
        ::close(descriptor);
        if (failed == 0) errno = S_ISDIR(facts.st_mode) ? EISDIR : ESPIPE;
        device.fail(verb);
      }
      size = facts.st_size;
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    ~File() { ::close(descriptor); }
    int descriptor;
    int64_t size;
  };

  template <class Step>
  void transfer(int64_t bytes, const char* verb, Step step) const {
    for (int64_t done = 0; done < bytes;) {
      const auto moved = step(done, static_cast<size_t>(std::min<int64_t>(bytes - done, int64_t{1} << 30)));
      if (moved < 0 && errno == EINTR) continue;
      if (moved < 0) fail(verb);
      if (moved == 0)
        throw DeviceError(fmt::format("{}: the file ended after {} of {} bytes", name(), done, bytes));
      done += moved;
    }
  }

  std::string path_;
  std::atomic<int64_t> size_{0};
  std::atomic<bool> is_new_{false};  // there is no such file yet: it would be zeros
};

}  // namespace

std::unique_ptr<Device> open_disk(const std::string& name, const std::string& detail) {
  return std::make_unique<DiskDevice>(name, detail);
}

}  // namespace quern
