#include "quern/engine/realize/recording.h"

#include <fmt/format.h>

#include <atomic>
#include <utility>

#include "quern/ir/node/node_map.h"
#include "quern/ir/shape/movement.h"
#include "quern/ir/shape/sharding.h"
#include "quern/tensor/core/dim.h"
#include "quern/tensor/core/live.h"

namespace quern {
namespace {

Recording*& recording_now() {
  thread_local Recording* now = nullptr;
  return now;
}

NumbersSeen*& seen_now() {
  thread_local NumbersSeen* now = nullptr;
  return now;
}

uint64_t next_number() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

}  // namespace

Recording::Recording(std::vector<uint64_t> numbers)
    : number_(next_number()),
      first_identity_(with_new_identity(UOp::index(0)).src(0).arg().integer()),
      random_(detail::random_state()),
      numbers_(std::move(numbers)) {
  QUERN_CHECK(current() == nullptr, "a recording within another");
  recording_now() = this;
  detail::made_inside() = number_;
  for (const UOp& write : pending_writes()) older_.insert(memory_base(write));
}

Recording::~Recording() {
  recording_now() = nullptr;
  detail::made_inside() = 0;
}

Recording::Pause::Pause() : paused_(std::exchange(recording_now(), nullptr)) {}
Recording::Pause::~Pause() { recording_now() = paused_; }

UOps Recording::older_writes(const UOps& roots) const {
  UOps found;
  if (older_.empty()) return found;
  walk(UOp::sink(roots), [&](const UOp& u) {
    if (u.op() == Op::AFTER && older_.contains(u)) found.push_back(u);
  });
  return found;
}

void Recording::rename(const std::unordered_map<UOp, UOp>& writes) {
  for (const auto& [before, now] : writes)
    if (older_.contains(before)) older_.insert(now);
}

Recording* Recording::current() { return recording_now(); }

void Recording::refuse(const char* what, const char* instead) {
  if (current() != nullptr)
    throw Error(fmt::format("jit: inside the function {}, which a replay cannot repeat: {}", what, instead));
}

void Recording::add(const UOp& sink, const Stripped& stripped, std::shared_ptr<const Prepared> prepared) {
  walk(sink, [&](const UOp& u) {
    if (u.op() == Op::SHRINK && u.ops_below().contains(Op::BIND)) add_conditions(u);
    if (u.op() != Op::STORE && u.op() != Op::AFTER) return;
    const UOp* memory = &u.src(0);
    while (memory->op() != Op::BUFFER && !memory->src().empty()) memory = &memory->src(0);
    if (memory->op() == Op::BUFFER) written_.insert(*memory);
  });
  ran_.push_back({std::move(prepared), stripped.memory, stripped.variables});
}

// A part of what was made before the recording has not been looked at by anybody meanwhile.
void Recording::add_conditions(const UOp& part) {
  const UOps& whole = part.src(0).shape();
  for (size_t i = 0; i < whole.size(); i++) {
    const UOp &begin = part.src(1 + i), &size = part.src(1 + whole.size() + i);
    if (!begin.ops_below().contains(Op::BIND) && !size.ops_below().contains(Op::BIND) &&
        !whole[i].ops_below().contains(Op::BIND))
      continue;
    const auto text = [&] {
      return fmt::format("a part of axis {}, which is {} long: [{}, {})", i, Dim(whole[i]).text(),
                         Dim(begin).text(), Dim(begin + size).text());
    };
    for (const UOp& number : {begin, size, whole[i] - begin - size}) conditions_.add(number, text);
  }
}

bool Recording::made(const UOp& buffer) const {
  return buffer.src(0).arg().integer() > first_identity_ && !constants_.contains(buffer);
}

void Recording::add_constant(uint64_t numbers, const UOp& memory) {
  const size_t place = constants_.size();
  if (place >= numbers_.size() || numbers_[place] != numbers)
    refuse("a tensor is made from numbers of the host that were others in the last call",
           "make it before the call, and pass it as an input or hold it outside");
  constants_.insert(memory);
}

NumbersSeen::NumbersSeen() : around_(std::exchange(seen_now(), this)) {}
NumbersSeen::~NumbersSeen() {
  seen_now() = around_;
  if (around_ != nullptr) around_->hashes.insert(around_->hashes.end(), hashes.begin(), hashes.end());
}
NumbersSeen* NumbersSeen::current() { return seen_now(); }

}  // namespace quern
