// What a graph of tensors means, computed node by node with eval(): slow, simple, and independent of
// scheduler and devices. Tests and fuzzers compare with it.
//
// Memory is a value here: a BUFFER holds what `contents` says, for ever; AFTER(memory, STOREs) is that memory
// with the stores written into it, in order, and what a kernel that is called makes of it is what INTERP
// makes. A device has to give the same results, by running things in the right order.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "quern/ir/node/uop.h"

namespace quern::reference {

using Contents =
    std::function<std::vector<Const>(const UOp& buffer)>;  // as many as the BUFFER (or PARAM) has elements
using Variables = std::map<std::string, int64_t>;          // of variables without a BIND

struct Value {
  Ints shape;
  std::vector<Const> elements;  // in row-major order
};

// REDUCE starts from the identity element (or its initial values) and goes in ascending order. An Error for
// what has no value, for a variable without one, or one that is bound to two values.
Value evaluate_tensor(const UOp& x, const Contents& contents = {}, const Variables& variables = {});
std::vector<Value> evaluate_tensors(const UOps& xs, const Contents& contents = {},
                                    const Variables& variables = {});
std::vector<Const> evaluate(const UOp& x, const Contents& contents = {}, const Variables& variables = {});

}  // namespace quern::reference
