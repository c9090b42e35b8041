#include "quern/schedule/facts/wanted.h"

#include <ranges>

#include "quern/base/small_vector.h"
#include "quern/ir/shape/movement.h"
#include "quern/schedule/facts/facts.h"

namespace quern {
namespace {

// Where on an axis a value is wanted, as a number: equal ones are the same place. It stands for the index
// that planning will make.
using IndexClass = uint64_t;
using IndexClasses = SmallVector<IndexClass, 6>;
constexpr IndexClass kFirst = 0, kDifferent = 1;

IndexClass combined(IndexClass place, uint64_t with) {
  if (place == kDifferent) return kDifferent;
  uint64_t h = (place ^ with * 0x9E3779B97F4A7C15) * 0xBF58476D1CE4E5B9;
  return (h ^ h >> 31) | 2;
}

uint64_t identity(const UOp& u) { return std::hash<UOp>()(u); }

IndexClasses through_reshape(const UOp& u, const IndexClasses& places) {
  const UOps &from = u.src(0).shape(), &to = u.shape();
  IndexClasses result;
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    const size_t first_from = i, first_to = j;
    int64_t a = 1, b = 1;
    if (i < from.size()) a = elements_at_most(UOps{from[i++]});
    if (j < to.size()) b = elements_at_most(UOps{to[j++]});
    while (a != b && (i < from.size() || j < to.size())) {
      if ((a < b && i < from.size()) || j == to.size())
        i++, a = elements_at_most(Sources(from).subspan(first_from, i - first_from));
      else
        j++, b = elements_at_most(Sources(to).subspan(first_to, j - first_to));
    }
    IndexClass all = kFirst;
    size_t longer = 0;  // axes that have more than one place
    for (size_t k = first_to; k < j; k++) {
      if (to[k].equals(1)) continue;
      all = longer++ == 0 ? places[k] : combined(combined(all, places[k]), identity(to[k]));
      if (places[k] == kDifferent) all = kDifferent;
    }
    size_t wanted = 0;
    for (size_t k = first_from; k < i; k++) wanted += from[k].equals(1) ? 0 : 1;
    for (size_t k = first_from; k < i; k++)
      result.push_back(from[k].equals(1) ? kFirst
                       : wanted == 1 && longer == 1
                           ? all
                           : combined(combined(all, identity(from[k])), k - first_from + 1));
  }
  return result;
}

// Of the source of a movement op.
IndexClasses through(const UOp& u, const IndexClasses& places) {
  const UOps& from = u.src(0).shape();
  IndexClasses result = places;
  switch (u.op()) {
    case Op::RESHAPE: return through_reshape(u, places);
    case Op::PERMUTE:
      for (size_t i = 0; i < places.size(); i++) result[static_cast<size_t>(u.arg().ints()[i])] = places[i];
      return result;
    case Op::EXPAND:
      for (size_t i = 0; i < places.size(); i++)
        if (from[i].equals(1)) result[i] = kFirst;
      return result;
    case Op::FLIP:
      for (int64_t axis : u.arg().ints()) {
        IndexClass& place = result[static_cast<size_t>(axis)];
        place = combined(place, 1);
      }
      return result;
    case Op::SHRINK:
    case Op::PAD:
      for (size_t i = 0; i < places.size(); i++)
        if (const UOp& offset = u.src(1 + i); !offset.equals(0))
          result[i] = combined(places[i], identity(offset) + (u.op() == Op::PAD ? 1 : 0));
      return result;
    default: return result;
  }
}

class Walk {
 public:
  void run(const NodeList& order, const std::function<bool(const UOp&, const Wanted&)>& gets_memory,
           NodeMap<Wanted>& found) {
    for (const UOp& u : std::views::reverse(order)) {
      const Users* known = users_.find(u);
      Users own = known ? *known : Users{};
      Wanted wanted{.by_several_kernels = own.kernel == kSeveral};
      for (size_t i = 0; i < own.places.size(); i++)
        if (own.places[i] == kDifferent) wanted.conflicting_axes |= axis_bit(i);
      found.emplace(u, wanted);
      if (u.op() == Op::STORE || u.op() == Op::CONTIGUOUS || u.op() == Op::COPY || u.op() == Op::CALL ||
          (is_computed(u) && gets_memory(u, wanted)))
        own = {next_kernel_++, {}};
      else if (has_memory(u))
        continue;
      pass_on(u, own);
    }
  }

 private:
  static constexpr int kNone = -1, kSeveral = -2;
  struct Users {
    int kernel = kNone;
    IndexClasses places;  // none: in loops of its own
  };

  void pass_on(const UOp& u, Users own) {
    if (u.op() == Op::SINK) own = {};  // of all, or a kernel of the user's
    const bool computed = own.kernel != kNone && !u.src().empty() && u.op() != Op::CALL && u.op() != Op::COPY;
    if (computed && own.places.empty()) {
      const size_t axes = (u.op() == Op::STORE ? u.src(0) : u).shape().size();
      for (size_t i = 0; i < axes; i++) own.places.push_back(new_class());
    }
    if (computed && u.op() == Op::REDUCE)
      for (int64_t axis : u.arg().reduce().axes) own.places[static_cast<size_t>(axis)] = new_class();
    if (computed && is_movement(u.op())) own.places = through(u, own.places);
    for (const UOp& s : u.src().first(is_movement(u.op()) ? 1 : u.src().size())) meet(s, own);
  }

  void meet(const UOp& u, const Users& by) {
    const auto [at, added] = users_.emplace(u, by);
    if (added || by.kernel == kNone) return;
    if (at->kernel == kNone) {
      *at = by;
      return;
    }
    if (at->kernel != by.kernel) at->kernel = kSeveral;
    for (size_t i = 0; i < std::min(at->places.size(), by.places.size()); i++)
      if (at->places[i] != by.places[i]) at->places[i] = kDifferent;
  }

  IndexClass new_class() { return next_class_ += 2; }  // no result of combined() is likely to be one

  NodeMap<Users> users_;
  int next_kernel_ = 0;
  IndexClass next_class_ = 2;
};

}  // namespace

void find_wanted(const NodeList& order, const std::function<bool(const UOp&, const Wanted&)>& gets_memory,
                 NodeMap<Wanted>& found) {
  Walk().run(order, gets_memory, found);
}

}  // namespace quern
