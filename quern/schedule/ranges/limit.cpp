#include "quern/schedule/ranges/limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "quern/base/env.h"
#include "quern/ir/node/node_map.h"

namespace quern {
namespace {

class Limiter {
 public:
  explicit Limiter(const SpecOf& spec_of) : spec_of_(spec_of) {}

  UOp run(const UOp& sink) {
    const NodeList order = sink.toposort([&](const UOp& u) { return u.op() != Op::SINK || same(u, sink); });
    for (const UOp& u : order)
      if (u.op() == Op::RANGE) next_range_ = std::max(next_range_, u.arg().range().id + 1);
    for (const UOp& u : order) {
      UOps sources;
      const bool inside = u.op() != Op::SINK || same(u, sink);
      for (const UOp& s : u.src()) sources.push_back(inside ? *done_.find(s) : s);
      if ((is_binary(u.op()) || is_ternary(u.op())) && !u.dtype().is_index()) cut(sources);
      remember(u, u.src().empty() ? u : u.with_src(sources));
    }
    return *done_.find(sink);
  }

 private:
  // The memory that is read to compute a node, in the kernel that it belongs to.
  const UOps& memory_of(const UOp& made) const {
    static const UOps kNone;
    const UOps* known = read_.find(made);
    return known ? *known : kNone;
  }
  void remember(const UOp& u, const UOp& made) {
    done_.emplace(u, made);
    held_.push_back(made);
    if (made.op() == Op::STAGE || made.op() == Op::AFTER || made.op() == Op::SINK) return;
    UOps all;
    auto add = [&](const UOp& m) {
      const auto at = std::ranges::lower_bound(all, m, before);
      if (at == all.end() || !same(*at, m)) all.insert(at, m);
    };
    for (const UOp& s : made.src())
      for (const UOp& m : memory_of(s)) add(m);
    if (made.op() == Op::INDEX) add(made.src(0));
    read_.emplace(made, std::move(all));
  }

  void cut(UOps& sources) {
    UOps all;
    for (const UOp& s : sources)
      for (const UOp& m : memory_of(s))
        if (std::ranges::find(all, m) == all.end()) all.push_back(m);
    if (all.empty()) return;
    const Texts device = all[0].op() == Op::STAGE ? all[0].arg().stage().device : all[0].device();
    const int64_t limit = buffer_limit(device, spec_of_);
    if (limit == 0 || std::ssize(all) <= limit - 1) return;  // one is for the output
    for (UOp& s : sources)
      if (is_elementwise(s.op()) && memory_of(s).size() > 1) s = staged(s, device, limit);
  }

  UOp staged(const UOp& value, const Texts& device, int64_t limit) {
    std::unordered_map<UOp, UOp> loops;
    UOps stage{UOp()}, index{UOp()};
    for (const UOp& r : value.ranges()) {
      const UOp own = UOp::range(r.src(0), next_range_++);
      loops.emplace(r, own);
      stage.push_back(own);
      index.push_back(r);
    }
    stage[0] = value.substitute_open(loops);
    index[0] = UOp::make(Op::STAGE, value.dtype(), stage,
                         StageArg{.space = AddrSpace::GLOBAL,
                                  .device = device,
                                  .removable = false,
                                  .reason = fmt::format("buffer limit: a kernel has {} at most", limit)});
    const UOp read = UOp::make(Op::INDEX, value.dtype(), index);
    held_.push_back(read);
    read_.emplace(read, UOps{index[0]});
    return read;
  }

  const SpecOf& spec_of_;
  NodeMap<UOp> done_;
  NodeMap<UOps> read_;
  UOps held_;  // keys of the tables
  int64_t next_range_ = 0;
};

}  // namespace

int64_t buffer_limit(const Texts& device, const SpecOf& spec_of) {
  if (env::MAX_KERNEL_BUFFERS() != 0) return env::MAX_KERNEL_BUFFERS();
  return device.empty() ? 0 : spec_of(device[0]).max_buffers;
}

int64_t most_buffers(const Texts& device, const SpecOf& spec_of) {
  constexpr int64_t kMostAtOnce = 24;
  const int64_t limit = buffer_limit(device, spec_of);
  return limit == 0 ? kMostAtOnce : std::min(kMostAtOnce, limit - 1);
}

UOp limit_buffers(const UOp& sink, const SpecOf& spec_of) { return Limiter(spec_of).run(sink); }

}  // namespace quern
