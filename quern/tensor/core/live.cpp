#include "quern/tensor/core/live.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <ranges>
#include <utility>

#include "quern/base/fork.h"
#include "quern/ir/shape/movement.h"
#include "quern/ir/shape/sharding.h"
#include "quern/tensor/core/default_gradient.h"

namespace quern {

namespace {

// The views between x and `base`, x first; none if x is no view of it.
std::optional<std::vector<const UOp*>> views_over(const UOp& x, const UOp& base) {
  std::vector<const UOp*> views;
  const UOp* u = &x;
  for (; !same(*u, base); u = &u->src(0)) {
    if (!is_view(*u)) return {};
    views.push_back(u);
  }
  return views;
}

UOp moved_to(const std::vector<const UOp*>& views, const UOp& base) {
  UOp moved = base;
  for (const UOp* view : views | std::views::reverse) {
    UOps sources(view->src().begin(), view->src().end());
    sources[0] = moved;
    moved = view->with_src(sources);
  }
  return moved;
}

}  // namespace

namespace detail {

// Every state stands in the list of its base. Nodes that are let go are kept in a list of their own until the
// lock is released: freeing one may call back (on_identity_freed).
struct Live {
  ProcessMutex lock{LockOrder::live};
  std::unordered_map<const Node*, std::vector<TensorState*>> by_base;
  uint64_t next_serial = 0, last_change = 0;
  std::atomic<uint64_t> lazy_version{0};
  std::vector<TensorState*> readers;  // those that have memory of a read
  std::atomic<size_t> reader_count{0};

  static Live& instance() {
    static Live* live = new Live;  // NOLINT: tensors may outlive static destruction
    return *live;
  }

  static bool is_lazy(const UOp& u) {
    return u.ops_below().contains(Op::BUFFER) && memory_base(u).op() != Op::BUFFER;
  }
  template <class T>
  static void make_room(std::vector<T>& list, size_t more) {
    if (list.capacity() - list.size() < more) list.reserve(2 * list.size() + more);
  }
  // Where a state with that value will stand. All that may throw is done here, and only then is it taken from
  // where it stands: no state is ever without a place.
  std::vector<TensorState*>& place_for(const UOp& value) {
    const auto [at, added] = by_base.try_emplace(viewed_by(value).node());
    try {
      make_room(at->second, 1);
    } catch (...) {
      if (added) by_base.erase(at);
      throw;
    }
    return at->second;
  }
  void enter(TensorState& s, std::vector<TensorState*>& list) noexcept {
    if (is_lazy(s.uop_)) lazy_version.fetch_add(1, std::memory_order_relaxed);
    s.place_ = list.size();
    list.push_back(&s);
  }
  void leave(TensorState& s, const std::vector<TensorState*>* kept = nullptr) noexcept {
    const auto found = by_base.find(viewed_by(s.uop_).node());
    auto& list = found->second;
    list.back()->place_ = s.place_;
    list[s.place_] = list.back();
    list.pop_back();
    if (list.empty() && &list != kept) by_base.erase(found);
  }
  void change(TensorState& s, UOp value, UOps& freed, bool another_value) {
    make_room(freed, 3);
    std::vector<TensorState*>& list = place_for(value);
    leave(s, &list);
    if (another_value) s.changed_ = ++last_change, s.by_ = std::this_thread::get_id();
    freed.push_back(std::exchange(s.uop_, std::move(value)));
    // What a state was stays known while more is written on top of it; other values may be computed anew from
    // memory that was overwritten meanwhile.
    if (s.read_ &&
        ((another_value && s.read_of_.op() != Op::AFTER) || memory_base(s.uop_).op() == Op::BUFFER))
      forget_read(s, freed);
    enter(s, list);
  }
  void set_read(TensorState& s, const UOp& value, const UOp& memory, UOps& freed) {
    make_room(freed, 2);
    make_room(readers, 1);
    freed.push_back(std::exchange(s.read_of_, value));
    freed.push_back(std::exchange(s.read_, memory));
    if (freed.back()) return;
    s.reader_ = readers.size();
    readers.push_back(&s);
    reader_count.store(readers.size(), std::memory_order_relaxed);
  }
  // `freed` has room.
  void forget_read(TensorState& s, UOps& freed) noexcept {
    freed.push_back(std::exchange(s.read_of_, {}));
    freed.push_back(std::exchange(s.read_, {}));
    leave_readers(s);
  }
  void leave_readers(TensorState& s) noexcept {
    readers.back()->reader_ = s.reader_;
    readers[s.reader_] = readers.back();
    readers.pop_back();
    reader_count.store(readers.size(), std::memory_order_relaxed);
  }
  static const UOp& read(const TensorState& s) { return s.read_; }
  static const UOp& read_of(const TensorState& s) { return s.read_of_; }
  std::vector<TensorState*> in_order() const {
    std::vector<TensorState*> all;
    for (const auto& [base, list] : by_base) all.insert(all.end(), list.begin(), list.end());
    std::ranges::sort(all, {}, [](const TensorState* s) { return s->serial_; });
    return all;
  }
  static const UOp& uop(const TensorState& s) { return s.uop_; }
  static bool is_changed(const TensorState& s, const LiveMark& mark) {
    return s.serial_ < mark.serial && s.changed_ > mark.change && s.by_ == std::this_thread::get_id();
  }
  static bool is_made_since(const TensorState& s, const LiveMark& mark) {
    return s.serial_ >= mark.serial && is_own(s);
  }
  static bool is_own(const TensorState& s) { return s.by_ == std::this_thread::get_id(); }
  static bool is_inside(const TensorState& s, uint64_t number) { return s.inside_ == number; }
  void begin(TensorState& s, const TensorState* viewed) {
    s.serial_ = next_serial++;
    s.family_ = viewed != nullptr ? viewed->family_ : s.serial_;
    enter(s, place_for(s.uop_));
  }
  void begin_family(TensorState& s) { s.family_ = next_serial++; }
  static uint64_t family(const TensorState& s) { return s.family_; }
};

TensorState::TensorState(UOp value)
    : uop_(std::move(value)), inside_(made_inside()), by_(std::this_thread::get_id()) {
  Live& live = Live::instance();
  const std::lock_guard guard(live.lock);
  live.begin(*this, nullptr);
}
TensorState::TensorState(UOp value, const TensorState& viewed)
    : uop_(std::move(value)), inside_(made_inside()), by_(std::this_thread::get_id()) {
  Live& live = Live::instance();
  const std::lock_guard guard(live.lock);
  live.begin(*this, &viewed);
}

TensorState::~TensorState() {
  Live& live = Live::instance();
  const std::lock_guard guard(live.lock);
  live.leave(*this);
  if (read_) live.leave_readers(*this);
}

UOp TensorState::get() const {
  const std::lock_guard guard(Live::instance().lock);
  return uop_;
}

void TensorState::set(UOp value) {
  UOps freed;
  freed.reserve(5);
  Live& live = Live::instance();
  const std::lock_guard guard(live.lock);
  live.change(*this, std::move(value), freed, true);
  if (read_) live.forget_read(*this, freed);
  live.begin_family(*this);
}

UOp TensorState::read_before(const UOp& value) const {
  const std::lock_guard guard(Live::instance().lock);
  if (!read_) return {};
  const auto views = views_over(value, read_of_);
  return views ? moved_to(*views, read_) : UOp();
}

uint64_t& made_inside() {
  thread_local uint64_t number = 0;
  return number;
}

// A state that another thread is making now has no owner yet, and must not be asked for one: those below are
// changed already, or this thread's own.
LiveMark live_mark() {
  Live& live = Live::instance();
  const std::lock_guard guard(live.lock);
  return {live.next_serial, live.last_change};
}
std::vector<std::shared_ptr<TensorState>> changed_since(const LiveMark& mark) {
  std::vector<std::shared_ptr<TensorState>> result;
  Live& live = Live::instance();
  const std::lock_guard guard(live.lock);
  for (TensorState* s : live.in_order())
    if (Live::is_changed(*s, mark))
      if (auto state = s->weak_from_this().lock()) result.push_back(std::move(state));
  return result;
}
void detach_made_since(const LiveMark& mark) {
  UOps freed;
  Live& live = Live::instance();
  const std::lock_guard guard(live.lock);
  for (TensorState* s : live.in_order()) {
    const UOp& value = Live::uop(*s);
    if (!Live::is_made_since(*s, mark) || !value.dtype().is_float() || value.op() == Op::DETACH ||
        s->requires_grad.value_or(false))
      continue;
    live.change(*s, quern::detach(value), freed, false);
  }
}

std::vector<std::weak_ptr<TensorState>> states_made_inside(uint64_t number) {
  std::vector<std::weak_ptr<TensorState>> result;
  Live& live = Live::instance();
  const std::lock_guard guard(live.lock);
  for (TensorState* s : live.in_order())
    if (Live::is_inside(*s, number)) result.push_back(s->weak_from_this());
  return result;
}

std::vector<std::shared_ptr<TensorState>> states_with_default_gradient() {
  std::vector<std::shared_ptr<TensorState>> result;
  Live& live = Live::instance();
  const std::lock_guard guard(live.lock);
  for (TensorState* s : live.in_order())
    if (!s->requires_grad && Live::is_own(*s))
      if (auto state = s->weak_from_this().lock()) result.push_back(std::move(state));
  return result;
}

std::vector<std::shared_ptr<TensorState>> states_with_grad() {
  std::vector<std::shared_ptr<TensorState>> result;
  Live& live = Live::instance();
  const std::lock_guard guard(live.lock);
  for (TensorState* s : live.in_order())
    if (s->requires_grad.value_or(false))
      if (auto state = s->weak_from_this().lock()) result.push_back(std::move(state));
  return result;
}

std::vector<std::shared_ptr<TensorState>> states_whose_grad_is_there() {
  std::vector<std::shared_ptr<TensorState>> result;
  Live& live = Live::instance();
  const std::lock_guard guard(live.lock);
  for (TensorState* s : live.in_order())
    if (s->grad && Live::is_own(*s))
      if (auto state = s->weak_from_this().lock()) result.push_back(std::move(state));
  return result;
}

}  // namespace detail

namespace {

// Which tensors memory is new for. Those that had its value without seeing each other are not views of each
// other now: the first gets the memory, and what is written there later is not seen by the others.
class NewMemory {
 public:
  UOp seen_by(uint64_t family, const UOp& before, const UOp& now) {
    const UOp& memory = viewed_by(now);
    if (memory.op() != Op::BUFFER || viewed_by(before).op() == Op::AFTER) return now;
    if (owners_.emplace(memory, family).first->second == family) return now;
    UOp& other = others_[memory][family];
    if (!other) other = with_new_identity(memory);
    return moved_to(*views_over(now, memory), other);
  }

 private:
  std::unordered_map<UOp, uint64_t> owners_;
  std::unordered_map<UOp, std::map<uint64_t, UOp>> others_;
};

}  // namespace

void keep_read(const UOp& value, const UOp& memory) {
  using detail::Live;
  UOps freed;
  Live& live = Live::instance();
  const std::lock_guard guard(live.lock);
  const auto found = live.by_base.find(viewed_by(value).node());
  if (found == live.by_base.end()) return;
  for (detail::TensorState* s : found->second)
    if (views_over(Live::uop(*s), value)) live.set_read(*s, value, memory, freed);
}

std::unordered_map<UOp, UOp> live_reads() {
  using detail::Live;
  std::unordered_map<UOp, UOp> result;
  Live& live = Live::instance();
  if (live.reader_count.load(std::memory_order_relaxed) == 0) return result;
  const std::lock_guard guard(live.lock);
  for (const detail::TensorState* s : live.readers) result.emplace(Live::read_of(*s), Live::read(*s));
  return result;
}

bool is_live_value(const UOp& value) {
  using detail::Live;
  Live& live = Live::instance();
  const std::lock_guard guard(live.lock);
  const auto found = live.by_base.find(viewed_by(value).node());
  if (found == live.by_base.end()) return false;
  return std::ranges::any_of(found->second, [&](const detail::TensorState* s) {
    return same(under_reshapes(Live::uop(*s)), under_reshapes(value));
  });
}

bool has_live_views(const UOp& base) {
  using detail::Live;
  Live& live = Live::instance();
  const std::lock_guard guard(live.lock);
  const auto found = live.by_base.find(viewed_by(base).node());
  if (found == live.by_base.end()) return false;
  return std::ranges::any_of(found->second, [&](const detail::TensorState* s) {
    return views_over(Live::uop(*s), base).has_value();
  });
}

void replace_live(const std::unordered_map<UOp, UOp>& map) {
  using detail::Live;
  if (map.empty()) return;
  UOps freed;
  Live& live = Live::instance();
  const std::lock_guard guard(live.lock);
  const std::vector<detail::TensorState*> states = live.in_order();
  UOps before;
  before.reserve(states.size());
  for (const detail::TensorState* s : states) before.push_back(Live::uop(*s));
  const UOp after = UOp::sink(before).substitute(map);
  NewMemory memory;
  UOps now = before;
  for (size_t i = 0; i < states.size(); i++)
    if (!same(before[i], after.src(i)))
      now[i] = memory.seen_by(Live::family(*states[i]), before[i], after.src(i));
  freed.reserve(4 * states.size());
  for (size_t i = 0; i < states.size(); i++)
    if (!same(before[i], now[i])) live.change(*states[i], now[i], freed, false);
  for (UOp& u : before) freed.push_back(std::move(u));
}

void replace_views(const UOp& old_base, const UOp& new_base, const detail::TensorState* family) {
  using detail::Live;
  UOps freed;
  Live& live = Live::instance();
  const std::lock_guard guard(live.lock);
  const auto found = live.by_base.find(viewed_by(old_base).node());
  if (found == live.by_base.end()) return;
  const std::vector<detail::TensorState*> states = found->second;
  for (detail::TensorState* s : states) {
    if (family != nullptr && Live::family(*s) != Live::family(*family)) continue;
    if (const auto views = views_over(Live::uop(*s), old_base))
      live.change(*s, moved_to(*views, new_base), freed, true);
  }
}

int64_t views_in_family(const detail::TensorState& state, const UOp& base) {
  using detail::Live;
  Live& live = Live::instance();
  const std::lock_guard guard(live.lock);
  const auto found = live.by_base.find(viewed_by(base).node());
  if (found == live.by_base.end()) return 0;
  return std::ranges::count_if(found->second, [&](const detail::TensorState* s) {
    return Live::family(*s) == Live::family(state) && views_over(Live::uop(*s), base);
  });
}

std::unordered_set<UOp> memory_of_parameters() {
  using detail::Live;
  std::unordered_set<UOp> result;
  Live& live = Live::instance();
  const std::lock_guard guard(live.lock);
  for (const auto& [base, list] : live.by_base)
    for (const detail::TensorState* s : list) {
      if (!s->requires_grad) continue;
      const UOp* u = &Live::uop(*s);
      while (is_view(*u) || u->op() == Op::MULTI || u->op() == Op::AFTER)
        u = u->op() == Op::AFTER ? &memory_under(*u) : &u->src(0);
      if (u->op() == Op::BUFFER) result.insert(*u);
    }
  return result;
}

bool is_seen_together(const UOp& view, const UOp& base) {
  using detail::Live;
  Live& live = Live::instance();
  const std::lock_guard guard(live.lock);
  const auto found = live.by_base.find(viewed_by(base).node());
  if (found == live.by_base.end()) return false;
  std::vector<uint64_t> families, others;
  for (const detail::TensorState* s : found->second)
    if (same(Live::uop(*s), view))
      families.push_back(Live::family(*s));
    else if (views_over(Live::uop(*s), base))
      others.push_back(Live::family(*s));
  return std::ranges::any_of(
      families, [&](uint64_t family) { return std::ranges::find(others, family) != others.end(); });
}

std::vector<UOp> live_uops() {
  using detail::Live;
  std::vector<UOp> result;
  std::unordered_map<UOp, bool> seen;
  Live& live = Live::instance();
  const std::lock_guard guard(live.lock);
  for (const detail::TensorState* s : live.in_order())
    if (seen.emplace(Live::uop(*s), true).second) result.push_back(Live::uop(*s));
  return result;
}

std::vector<UOp> lazy_uops() {
  using detail::Live;
  std::vector<UOp> result;
  Live& live = Live::instance();
  const std::lock_guard guard(live.lock);
  for (const auto& [base, list] : live.by_base)
    if (base->op != Op::BUFFER)
      for (const detail::TensorState* s : list)
        if (Live::is_lazy(Live::uop(*s))) result.push_back(Live::uop(*s));
  return result;
}

std::vector<UOp> pending_writes() {
  using detail::Live;
  std::vector<UOp> result;
  Live& live = Live::instance();
  const std::lock_guard guard(live.lock);
  for (const detail::TensorState* s : live.in_order())
    if (memory_base(Live::uop(*s)).op() == Op::AFTER) result.push_back(Live::uop(*s));
  return result;
}

uint64_t lazy_uops_version() { return detail::Live::instance().lazy_version.load(std::memory_order_relaxed); }

}  // namespace quern
