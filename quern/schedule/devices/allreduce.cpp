#include "quern/schedule/devices/allreduce.h"

#include <algorithm>

#include "quern/base/env.h"
#include "quern/ir/rewrite/rewrite.h"
#include "quern/ir/shape/movement.h"
#include "quern/schedule/facts/device_parts.h"
#include "quern/schedule/facts/facts.h"

namespace quern {
namespace {

constexpr int64_t kRingElements = 256 * 1024;

struct Identities {
  int64_t next;
};

// Everyone gets everything.
UOp naive(const UOp& x, Op op, const UOp& devices, int64_t parts) {
  UOp sum;
  for (int64_t i = 0; i < parts; i++) {
    const UOp term = copy_to(select_device(x, i), devices);
    sum = sum ? UOp::alu(op, {sum, term}) : term;
  }
  return sum;
}

// Chunk c starts at device c and ends, combined, at the one before it.
UOp ring(Identities& identities, const UOp& x, Op op, const UOp& devices, int64_t parts) {
  const Texts& names = devices.arg().texts();
  const int64_t elements = elements_at_most(x.shape());
  const UOp flat = reshape(x, UOps{UOp::index(elements)});
  const UOp memory = own_memory(x.dtype(), elements, devices, identities.next++);
  UOps stores;
  for (int64_t c = 0; c < parts; c++) {
    const int64_t begin = elements * c / parts, size = elements * (c + 1) / parts - begin;
    if (size == 0) continue;
    auto chunk_on = [&](int64_t device) {
      return shrink(select_device(flat, device), UOps{UOp::index(begin)}, UOps{UOp::index(size)});
    };
    UOp sum = chunk_on(c);
    for (int64_t hop = 1; hop < parts; hop++) {
      const int64_t device = (c + hop) % parts;
      sum = UOp::alu(op, {copy_to(sum, device_node(names[static_cast<size_t>(device)])), chunk_on(device)});
    }
    stores.push_back(
        store(shrink(memory, UOps{UOp::index(begin)}, UOps{UOp::index(size)}), copy_to(sum, devices)));
  }
  return reshape(after(memory, stores), x.shape());
}

UOp lowered(Identities& identities, const UOp& u) {
  const UOp &own = u.src(0), &devices = u.src(1);
  const auto parts = std::ssize(devices.arg().texts());
  if (parts < 2) return own;
  const Op op = u.arg().reduce().op;
  const UOp x = for_other_devices(own);
  const bool fixed = std::ranges::all_of(x.shape(), [](const UOp& s) { return s.is_int_const(); });
  const int64_t elements = elements_at_most(x.shape());
  const bool large = env::RING() == 2 || (env::RING() == 1 && parts > 2 && elements > kRingElements);
  return fixed && large && elements > 0 ? ring(identities, x, op, devices, parts)
                                        : naive(x, op, devices, parts);
}

const Rules allreduce = [] {
  return RuleList{{op(Op::ALLREDUCE).as("u"), lowered, "values of all devices combined -> copies and sums"}};
};

}  // namespace

UOp lower_allreduce(const UOp& sink) {
  if (!sink.ops_below().contains(Op::ALLREDUCE)) return sink;
  Identities identities{next_identity(sink)};
  return graph_rewrite(sink, allreduce, identities, {.name = "combine devices"});
}

}  // namespace quern
