// A fuzz target: bytes that libFuzzer makes go to a reader of files, which may throw an Error and nothing
// else.
#pragma once

#include <cstdint>

#include "quern/tensor/core/state_dict.h"
#include "test/io/bytes.h"

namespace quern::io {

// Reads what was loaded, where no kernel has to run for it.
inline void look_at(const Tensor& tensor) {
  const Op op = tensor.uop().op();
  if (op == Op::BUFFER || (op == Op::RESHAPE && tensor.uop().src(0).op() == Op::BUFFER)) (void)tensor.bytes();
}
inline void look_at(const StateDict& tensors) {
  for (const auto& [name, tensor] : tensors) look_at(tensor);
}

// parse(bytes, name, keep_alive)
template <class Parse>
int run_target(const uint8_t* data, size_t size, Parse parse) {
  static const bool prepared = (set_default_device("INTERP"), true);  // CPU would compile
  (void)prepared;
  const Memory memory({reinterpret_cast<const char*>(data), size});
  try {
    parse(memory.span(), std::string("f"), memory.bytes);
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): that is how it should be
  }
  return 0;
}

}  // namespace quern::io

// FUZZ(expression of `bytes`, `name` and `keep`)
#define FUZZ(...)                                                                                   \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {                         \
    return quern::io::run_target(data, size,                                                        \
                                 []([[maybe_unused]] auto bytes, [[maybe_unused]] const auto& name, \
                                    [[maybe_unused]] const auto& keep) {                            \
                                   using namespace quern::io; /* NOLINT */                          \
                                   __VA_ARGS__;                                                     \
                                 });                                                                \
  }
