// Random integer expressions and conditions: what index arithmetic looks like, and what it never looks like.
#pragma once

#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "quern/ir/node/uop.h"

namespace quern {

struct ExpressionKind {
  bool condition = false;       // the root is a condition
  bool gates = true;            // where(condition, x, invalid) may occur anywhere
  DType dtype = dtypes::index;  // of the root, or of what the condition compares
};

// Leaves are a few ranges (of sizes 1 to 17, and of the symbolic size n), variables, constants; parts of the
// expression occur again elsewhere in it.
UOp random_expression(std::mt19937_64& random, int depth, const ExpressionKind& kind);

// A condition and a value over the same leaves.
std::pair<UOp, UOp> random_gated(std::mt19937_64& random, int depth, const ExpressionKind& kind);

// Values for leaves: those of every corner first, then random ones; all combinations when they are few.
std::vector<std::vector<Const>> random_points(std::mt19937_64& random, const UOps& leaves, size_t most);

// The smallest expression that still fails, found by taking parts of it and by making its constants smaller.
UOp shrink(const UOp& failing, const std::function<bool(const UOp&)>& fails);

}  // namespace quern
