#include "quern/runtime/buffer.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "quern/base/fork.h"
#include "quern/base/profile.h"
#include "quern/runtime/counters.h"

namespace quern {
namespace {

int64_t size_in_bytes(Device& device, DType dtype, int64_t elements) {
  if (elements < 0 || dtype.bytes() <= 0 || elements > (int64_t{1} << 60) / dtype.bytes())
    throw MemoryError(fmt::format("{}: memory for {} elements of {}: there are at most 2^60 bytes",
                                  device.name(), elements, dtype.name()));
  return elements * dtype.bytes();
}

void count_memory(Device& device, int64_t change) {
  const int64_t held = device.count_memory(change);
  if (profile::is_on()) profile::note_memory(device.name(), held);
  const int64_t used = GlobalCounters::mem_used += change;
  int64_t peak = GlobalCounters::mem_peak.load();
  while (peak < used && !GlobalCounters::mem_peak.compare_exchange_weak(peak, used)) {
  }
}

// One at a time allocates, or forbids it.
std::mutex& allocation() {
  static ProcessMutex mutex(LockOrder::allocation);
  return mutex;
}

}  // namespace

Buffer::Buffer(Device& device, DType dtype, int64_t elements)
    : device_(device), dtype_(dtype), elements_(elements), bytes_(size_in_bytes(device, dtype, elements)) {}

Buffer::Buffer(Device& device, DType dtype, int64_t elements, void* memory, std::shared_ptr<void> keep_alive,
               std::function<void()> check)
    : Buffer(device, dtype, elements) {
  if (!device.is_host_memory())
    throw DeviceError(fmt::format("{} cannot use memory of the host in place", device.name()));
  if (memory == nullptr && bytes_ > 0)
    throw Error(fmt::format("memory of {} bytes is given as a null pointer", bytes_));
  keep_alive_ = std::move(keep_alive);
  check_ = std::move(check);
  memory_ = memory;
  is_external_ = allocated_ = true;
}

Buffer::Buffer(BufferPtr base, DType dtype, int64_t elements, int64_t byte_offset)
    : Buffer(base->device(), dtype, elements) {
  if (byte_offset < 0 || byte_offset > base->bytes() || bytes_ > base->bytes() - byte_offset)
    throw Error(fmt::format("{} bytes at offset {} do not lie within memory of {} bytes", bytes_, byte_offset,
                            base->bytes()));
  base_ = std::move(base);
  offset_ = byte_offset;
}

Buffer::~Buffer() {
  if (!allocated_ || is_external_ || base_) return;
  device_.free(memory_, bytes_);
  count_memory(device_, -bytes_);
}

bool Buffer::is_allocated() const {
  return base_ ? base_->is_allocated() : allocated_.load(std::memory_order_acquire);
}

void* Buffer::memory() {
  if (base_) {
    void* const whole = base_->memory();
    return whole == nullptr ? nullptr : static_cast<std::byte*>(whole) + offset_;
  }
  if (check_) check_();
  if (allocated_.load(std::memory_order_acquire)) return memory_;
  const std::lock_guard lock(allocation());
  if (!allocated_) {
    if (!forbidden_.empty()) throw Error(forbidden_);
    memory_ = device_.allocate(bytes_);
    allocated_ = true;
    count_memory(device_, bytes_);
  }
  return memory_;
}

void Buffer::forbid(std::string why) {
  const std::lock_guard lock(allocation());
  QUERN_CHECK(!base_ && !allocated_, "memory that is in use is forbidden");
  forbidden_ = std::move(why);
}

void Buffer::copy_in(std::span<const std::byte> from) {
  if (std::ssize(from) > bytes_)
    throw Error(fmt::format("{} bytes do not fit into memory of {} bytes", from.size(), bytes_));
  device_.copy_in(memory(), from.data(), std::ssize(from));
}

void Buffer::copy_out(std::span<std::byte> to) {
  if (std::ssize(to) > bytes_)
    throw Error(fmt::format("{} bytes are wanted from memory of {} bytes", to.size(), bytes_));
  device_.copy_out(to.data(), memory(), std::ssize(to));
}

void copy(Buffer& to, Buffer& from) {
  if (from.bytes() > to.bytes())
    throw Error(fmt::format("{} bytes are copied into memory of {} bytes", from.bytes(), to.bytes()));
  copy(to.device(), to.memory(), from.device(), from.memory(), from.bytes());
}

void copy(Device& to_device, void* to, Device& from_device, void* from, int64_t bytes) {
  if (!from_device.holds_values() && !to_device.holds_values()) return;
  if (from_device.is_host_memory()) {
    to_device.copy_in(to, from, bytes);
  } else if (to_device.is_host_memory()) {
    from_device.copy_out(to, from, bytes);
  } else {
    std::vector<std::byte> between(static_cast<size_t>(std::min<int64_t>(bytes, 16 << 20)));
    for (int64_t done = 0; done < bytes; done += std::ssize(between)) {
      const int64_t part = std::min<int64_t>(bytes - done, std::ssize(between));
      from_device.copy_out(between.data(), static_cast<std::byte*>(from) + done, part);
      to_device.copy_in(static_cast<std::byte*>(to) + done, between.data(), part);
    }
  }
}

// ---- from nodes to memory

namespace {

struct Registry {
  ProcessMutex mutex{LockOrder::buffers};
  std::unordered_map<int64_t, std::vector<BufferPtr>> buffers;  // one for each device
};

// Never freed: nodes may go after static objects have.
Registry& registry() {
  static auto* const made = [] {
    on_identity_freed([](int64_t identity) noexcept {
      std::vector<BufferPtr> last;  // freed after the lock is
      const std::lock_guard lock(registry().mutex);
      const auto found = registry().buffers.find(identity);
      if (found == registry().buffers.end()) return;
      last = std::move(found->second);
      registry().buffers.erase(found);
    });
    return new Registry;  // NOLINT(cppcoreguidelines-owning-memory)
  }();
  return *made;
}

int64_t identity_of(const UOp& buffer) {
  if (buffer.op() != Op::BUFFER || buffer.src(0).op() != Op::UNIQUE)
    throw Error(fmt::format("{} is not memory: expected a BUFFER with an identity", name(buffer.op())));
  return buffer.src(0).arg().integer();
}

void check_fits(const UOp& node, const Buffer& buffer, size_t device) {
  const std::string& name = node.src(1).arg().texts().at(device);
  if (buffer.dtype() != node.dtype() || buffer.elements() != node.arg().integer() ||
      (buffer.device().name() != name && buffer.device().name() != Device::canonical(name)))
    throw Error(fmt::format("BUFFER of {} {} on {} stands for memory of {} {} on {}", node.arg().integer(),
                            node.dtype().name(), name, buffer.elements(), buffer.dtype().name(),
                            buffer.device().name()));
}

void check_one_device(const UOp& memory) {
  const size_t devices = memory.src(1).arg().texts().size();
  if (devices != 1) throw DeviceError(fmt::format("memory on {} devices: expected one", devices));
}

}  // namespace

BufferPtr buffer_of(const UOp& memory) {
  if (memory.op() == Op::SLICE) {
    const UOp offset = memory.src(1).simplify();
    if (!offset.is_int_const()) throw Error("SLICE: its offset is not a constant: " + offset.text());
    return std::make_shared<Buffer>(buffer_of(memory.src(0)), memory.dtype(), memory.arg().integer(),
                                    static_cast<int64_t>(offset.int_value()) * memory.dtype().bytes());
  }
  (void)identity_of(memory);
  check_one_device(memory);
  return buffer_of(memory, 0);
}

BufferPtr buffer_of(const UOp& memory, size_t device) {
  const int64_t identity = identity_of(memory);
  const Texts& names = memory.src(1).arg().texts();
  if (device >= names.size())
    throw DeviceError(fmt::format("memory on {}: there is no device {}", fmt::join(names, "+"), device));
  Registry& all = registry();
  {
    const std::lock_guard lock(all.mutex);
    if (const auto found = all.buffers.find(identity); found != all.buffers.end()) {
      const BufferPtr& known = found->second.at(device);
      check_fits(memory, *known, device);
      return known;
    }
  }
  std::vector<BufferPtr> made;
  for (const std::string& name : names)
    made.push_back(std::make_shared<Buffer>(Device::get(name), memory.dtype(), memory.arg().integer()));
  const std::lock_guard lock(all.mutex);
  return all.buffers.emplace(identity, std::move(made)).first->second.at(device);
}

bool has_buffer(const UOp& memory) {
  const int64_t identity = identity_of(memory.op() == Op::SLICE ? memory.src(0) : memory);
  const std::lock_guard lock(registry().mutex);
  return registry().buffers.contains(identity);
}

void set_buffer(const UOp& memory, BufferPtr buffer) {
  const int64_t identity = identity_of(memory);
  check_one_device(memory);
  check_fits(memory, *buffer, 0);
  std::vector<BufferPtr> all{std::move(buffer)};
  const std::lock_guard lock(registry().mutex);
  std::swap(registry().buffers[identity], all);
}

}  // namespace quern
