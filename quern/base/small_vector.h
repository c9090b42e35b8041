// A vector whose first N elements need no allocation. As much of one as ir uses.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <new>
#include <utility>

namespace quern {

template <class T, size_t N>
class SmallVector {
 public:
  SmallVector() = default;
  SmallVector(std::initializer_list<T> list) {
    for (const T& x : list) push_back(x);
  }
  SmallVector(const SmallVector& o) {
    reserve(o.size_);
    for (const T& x : o) push_back(x);
  }
  SmallVector(SmallVector&& o) noexcept {
    if (o.data_ != o.local()) {  // on the heap: take it
      data_ = std::exchange(o.data_, o.local());
      size_ = std::exchange(o.size_, 0);
      capacity_ = std::exchange(o.capacity_, N);
      return;
    }
    for (T& x : o) push_back(std::move(x));
    o.clear();
  }
  SmallVector& operator=(SmallVector o) noexcept {
    std::destroy_at(this);
    std::construct_at(this, std::move(o));
    return *this;
  }
  ~SmallVector() {
    clear();
    if (data_ != local()) std::allocator<T>().deallocate(data_, capacity_);
  }

  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }

  void push_back(T x) {
    if (size_ == capacity_) reserve(2 * capacity_);
    std::construct_at(data_ + size_++, std::move(x));
  }
  void shrink(size_t size) {
    while (size_ > size) std::destroy_at(data_ + --size_);
  }
  void clear() { shrink(0); }

  void reserve(size_t capacity) {
    if (capacity <= capacity_) return;
    T* larger = std::allocator<T>().allocate(capacity);
    std::uninitialized_move(begin(), end(), larger);
    std::destroy(begin(), end());
    if (data_ != local()) std::allocator<T>().deallocate(data_, capacity_);
    data_ = larger;
    capacity_ = capacity;
  }

 private:
  T* local() { return reinterpret_cast<T*>(local_); }  // NOLINT(*-reinterpret-cast)
  alignas(T) std::byte local_[N * sizeof(T)];
  T* data_ = local();
  size_t size_ = 0, capacity_ = N;
};

}  // namespace quern
