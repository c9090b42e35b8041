// The tensors that are alive in this process, found by the node that holds or computes their values.
#pragma once

#include <memory>
#include <optional>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "quern/ir/node/uop.h"

namespace quern {
namespace detail {

// What the copies of a Tensor share. `uop` is read and written under the lock of live.cpp only, because
// realising one tensor rewrites all others that share its graph.
struct TensorState : std::enable_shared_from_this<TensorState> {
  explicit TensorState(UOp value);
  TensorState(UOp value, const TensorState& viewed);  // it sees the values of the other one
  ~TensorState();
  TensorState(const TensorState&) = delete;
  TensorState& operator=(const TensorState&) = delete;

  UOp get() const;
  void set(UOp value);

  UOp read_before(const UOp& value) const;  // memory with this value, if a read left it (keep_read)

  bool is_number = false;             // it was made to stand for one, which is weak beside other tensors
  std::optional<bool> requires_grad;  // none: nothing was said
  std::shared_ptr<TensorState> grad;

 private:
  friend struct Live;
  UOp uop_;
  UOp read_, read_of_;    // memory with the values of a node that it is or was a view of, if they were read
  size_t reader_ = 0;     // its place among those that have such memory
  size_t place_ = 0;      // in its list of tensors over one base
  uint64_t serial_ = 0;   // the order in which they were made
  uint64_t family_ = 0;   // the same for those that see the values of one tensor
  uint64_t changed_ = 0;  // when it was set last, or what it is a view of was written
  uint64_t inside_ = 0;   // made_inside() when it was made
  std::thread::id by_;    // who made it, or changed it last
};

std::vector<std::shared_ptr<TensorState>>
states_with_grad();  // those alive that require gradients, oldest first

std::vector<std::shared_ptr<TensorState>> states_whose_grad_is_there();  // oldest first

// What the tensors that this thread makes now are part of, as a number of the engine's; 0: nothing.
uint64_t& made_inside();

// A moment; and the tensors that were there then and that this thread changed since, oldest first.
struct LiveMark {
  uint64_t serial, change;
};
LiveMark live_mark();
std::vector<std::shared_ptr<TensorState>> changed_since(const LiveMark& mark);

// The floats that this thread made since then, and that are still there, become detached: no gradient flows
// through them. Those that were told to require gradients stay as they are.
void detach_made_since(const LiveMark& mark);

// Those that this thread made while made_inside() was that number.
std::vector<std::weak_ptr<TensorState>> states_made_inside(uint64_t number);

}  // namespace detail

// A read computes into memory beside the graph, which gradients go through. The memory stays with the tensors
// that are `value` or views of it, and nothing writes to it.
void keep_read(const UOp& value, const UOp& memory);

// The values that were read so, and their memory.
std::unordered_map<UOp, UOp> live_reads();

// Whether some live tensor is this value, or a reshape of it: it can be the target of a gradient.
bool is_live_value(const UOp& value);
bool has_live_views(const UOp& base);  // or is it

// All occurrences of the keys, in the graphs of all live tensors, become their values.
void replace_live(const std::unordered_map<UOp, UOp>& map);

// Tensors that are nothing but views of old_base become views of new_base, which has its shape. Values that
// are equal are one node, but those of different tensors are not written together: with `family`, only
// tensors that see the values of that one are changed.
void replace_views(const UOp& old_base, const UOp& new_base, const detail::TensorState* family = nullptr);

// The memory of live tensors of which the user said whether they want gradients: BUFFERs.
std::unordered_set<UOp> memory_of_parameters();

// How many tensors, with this one, are views of `base` and see the values of this one.
int64_t views_in_family(const detail::TensorState& state, const UOp& base);

// Whether a tensor that is `view`, which is a view of `base`, sees its values together with one that is
// another view of `base`.
bool is_seen_together(const UOp& view, const UOp& base);

// The distinct graphs of live tensors, oldest first.
std::vector<UOp> live_uops();

// Those of them that read memory and are more than a view of it: they have to be run, one day. The number
// changes whenever there is another one.
std::vector<UOp> lazy_uops();
uint64_t lazy_uops_version();

// Tensors whose memory is still to be written.
std::vector<UOp> pending_writes();

}  // namespace quern
