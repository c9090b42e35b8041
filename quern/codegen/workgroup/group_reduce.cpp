#include "quern/codegen/workgroup/group_reduce.h"

namespace quern {
namespace {

constexpr int64_t kMostInStep = 16;

// The greatest factor of n that one step does; a large prime is done in one.
int64_t digit_of(int64_t n) {
  for (int64_t d = kMostInStep; d > 1; d--)
    if (n % d == 0) return d;
  for (int64_t d = kMostInStep + 1; d * d <= n; d++)
    if (n % d == 0) return d;
  return n;
}

}  // namespace

UOp combine_in_group(Op op, const UOp& share, const GroupThreads& threads, int64_t& next_local,
                     int64_t& next_range) {
  UOp value = share;
  int64_t scale = 1;  // of the digit
  for (int64_t left = threads.steps; left > 1;) {
    const int64_t base = digit_of(left);
    const UOp memory =
        UOp::make(Op::DEFINE_LOCAL, share.dtype().ptr(threads.count, AddrSpace::LOCAL), {}, next_local++);
    const UOp store = UOp::make(Op::STORE, dtypes::void_,
                                {UOp::make(Op::INDEX, memory.dtype(), {memory, threads.index}), value});
    const UOp done = UOp::make(Op::BARRIER, dtypes::void_, {store});
    const UOp r = UOp::range(base, next_range++, AxisKind::REDUCE);
    const UOp digit = threads.along / scale % base;
    const UOp at = threads.index + (r - digit) * (scale * threads.stride);
    const UOp after = UOp::make(Op::AFTER, memory.dtype(), {memory, done});
    const UOp other = UOp::make(Op::LOAD, share.dtype(), {UOp::make(Op::INDEX, memory.dtype(), {after, at})});
    value = UOp::make(Op::REDUCE, share.dtype(), {other, r}, ReduceArg{.op = op, .axes = {}, .states = 1});
    scale *= base;
    left /= base;
  }
  return value;
}

int64_t local_bytes_to_combine(DType dtype, int64_t steps, int64_t threads) {
  int64_t bytes = 0;
  for (int64_t left = steps; left > 1; left /= digit_of(left)) bytes += threads * dtype.bytes();
  return bytes;
}

}  // namespace quern
