// Memory of tensors: a Buffer belongs to a BUFFER node, by its identity, and goes when that is freed.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "quern/ir/node/uop.h"
#include "quern/runtime/device.h"

namespace quern {

class Buffer;
using BufferPtr = std::shared_ptr<Buffer>;

class Buffer {
 public:
  // Memory of its own, allocated when it is first used.
  Buffer(Device& device, DType dtype, int64_t elements);
  // Memory of someone else, who must let it live as long as `keep_alive` does. On a device with host memory.
  // `check` is called whenever the memory is asked for, and throws if it must not be used any more.
  Buffer(Device& device, DType dtype, int64_t elements, void* memory, std::shared_ptr<void> keep_alive,
         std::function<void()> check = {});
  // A part of another Buffer. An Error unless it lies within.
  Buffer(BufferPtr base, DType dtype, int64_t elements, int64_t byte_offset);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  Device& device() const { return device_; }
  DType dtype() const { return dtype_; }
  int64_t elements() const { return elements_; }
  int64_t bytes() const { return bytes_; }
  bool is_allocated() const;
  bool is_external() const { return base_ ? base_->is_external() : is_external_; }  // memory of someone else
  void* memory();                                                                   // allocates
  Argument argument() { return {memory(), bytes_}; }
  void forbid(std::string why);  // who asks for its memory gets an Error; only before it is allocated

  // The whole of it, or the first bytes. An Error for more than there is.
  void copy_in(std::span<const std::byte> from);
  void copy_out(std::span<std::byte> to);

 private:
  Device& device_;
  DType dtype_;
  int64_t elements_, bytes_;
  BufferPtr base_;
  int64_t offset_ = 0;
  std::shared_ptr<void> keep_alive_;
  std::function<void()> check_;
  bool is_external_ = false;
  std::string forbidden_;
  void* memory_ = nullptr;
  std::atomic<bool> allocated_{false};  // and memory_ stays as it is from then on
};

// Copies all of `from`, which is no larger, into `to`; between any two devices.
void copy(Buffer& to, Buffer& from);
void copy(Device& to_device, void* to, Device& from_device, void* from, int64_t bytes);

// The Buffer of a BUFFER (identity UNIQUE, one device), made when first asked for; of a SLICE of one with a
// constant offset, a part of it.
BufferPtr buffer_of(const UOp& memory);

// Of a BUFFER on several devices: the memory that it has on one of them.
BufferPtr buffer_of(const UOp& memory, size_t device);

// Whether it was ever asked for: if not, its contents are whatever they will be.
bool has_buffer(const UOp& memory);

// From now on that BUFFER stands for this memory. An Error unless dtype, size and device fit.
void set_buffer(const UOp& memory, BufferPtr buffer);

}  // namespace quern
