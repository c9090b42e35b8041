#include "quern/codegen/memory/stream.h"

#include <map>
#include <set>

#include "quern/codegen/analysis/strides.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/pass/linear_program.h"
#include "quern/ir/rewrite/rewrite.h"

namespace quern {
namespace {

// Whether n divides it, whatever the ranges in it are.
bool is_multiple(const UOp& index, wide n) {
  UOps terms{index};
  while (!terms.empty()) {
    const UOp u = std::move(terms.back());
    terms.pop_back();
    if (u.op() == Op::ADD)
      terms.insert(terms.end(), u.src().begin(), u.src().end());
    else if (!(u.is_int_const() && u.int_value() % n == 0) &&
             !(u.op() == Op::MUL && u.src(1).is_int_const() && u.src(1).int_value() % n == 0))
      return false;
  }
  return true;
}

struct Streams {
  NodeSet stores = {};
};

UOp store_past_caches(const Streams& c, const UOp& u, Sources now) {
  return c.stores.contains(u) ? u.with_src(now).with_hint(&Hints::stream, true) : UOp();
}

}  // namespace

const Rules streamed_stores = [] {
  return RuleList{{op(Op::STORE), store_past_caches, "a STORE of a whole line -> one past the caches"}};
};

UOp mark_streams(const UOp& program, const DeviceSpec& spec) {
  wide bytes = 0;
  NodeSet read;
  UOps stores;
  walk(program, [&](const UOp& u) {
    if (u.op() == Op::PARAM) bytes += wide{u.dtype().size()} * u.dtype().base().bytes();
    if (u.op() == Op::LOAD) read.insert(storage_of(u.src(0)));
    if (u.op() == Op::STORE && u.src().size() == 2 && storage_of(u.src(0)).op() == Op::PARAM &&
        !has_gate(index_of_address(u.src(0))) && u.src(1).dtype().bytes() == spec.parallel.vector_bytes)
      stores.push_back(u);
  });
  if (bytes < spec.memory.l3_bytes || stores.empty()) return program;
  // the vectors that are written behind the same start, by their number
  std::map<std::pair<const void*, const void*>, std::set<wide>> together;
  const auto key = [](const UOp& index) {
    return std::pair<const void*, const void*>(storage_of(index).node(), spot_of(index).start.node());
  };
  const auto elements = [](const UOp& store) { return wide{store.src(1).dtype().lanes()}; };
  std::erase_if(stores, [&](const UOp& s) {
    const UOp& index = index_of_address(s.src(0));
    const Spot spot = spot_of(index);
    return read.contains(storage_of(index)) || spot.offset % elements(s) != 0 ||
           (spot.start && !is_multiple(spot.start, elements(s)));
  });
  for (const UOp& s : stores) {
    const UOp& index = index_of_address(s.src(0));
    together[key(index)].insert(spot_of(index).offset / elements(s));
  }
  Streams streamed;
  for (const UOp& s : stores) {
    const UOp& index = index_of_address(s.src(0));
    const std::set<wide>& all = together.at(key(index));
    const wide vectors = std::max<wide>(1, kCacheLine / spec.parallel.vector_bytes),
               at = spot_of(index).offset / elements(s);
    bool whole = true;
    for (wide i = at / vectors * vectors; i < at / vectors * vectors + vectors; i++) whole &= all.contains(i);
    if (whole) streamed.stores.insert(s);
  }
  return graph_rewrite(program, streamed_stores, streamed, {.order = Order::once, .name = "streams"});
}

}  // namespace quern
