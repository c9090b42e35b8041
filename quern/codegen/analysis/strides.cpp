#include "quern/codegen/analysis/strides.h"

#include <algorithm>

#include "quern/ir/pass/linear_program.h"

namespace quern {

bool is_open(const UOp& u, const UOp& range) {
  const UOps& open = u.ranges();
  return std::ranges::find(open, range) != open.end();
}

int64_t steps(const UOp& range) {
  return range.src(0).is_int_const() ? static_cast<int64_t>(range.src(0).int_value()) : 0;
}

std::optional<wide> stride_of(const UOp& index, const UOp& range) {
  struct Term {
    UOp value;
    wide factor;
  };
  std::vector<Term> terms{{index, 1}};
  wide stride = 0;
  while (!terms.empty()) {
    const auto [u, factor] = std::move(terms.back());
    terms.pop_back();
    if (same(u, range)) {
      stride += factor;
    } else if (!is_open(u, range)) {
      continue;
    } else if (u.op() == Op::ADD) {
      terms.push_back({u.src(0), factor});
      terms.push_back({u.src(1), factor});
    } else if (u.op() == Op::MUL && u.src(1).is_int_const() && fits(dtypes::int32, u.src(1).int_value()) &&
               fits(dtypes::int32, factor)) {
      terms.push_back({u.src(0), factor * u.src(1).int_value()});
    } else {
      return {};
    }
  }
  return stride;
}

Spot spot_of(const UOp& index) {
  const UOp& position = position_of(index);
  if (position.is_int_const()) return {{}, position.int_value()};
  if (position.op() == Op::ADD && position.src(1).is_int_const())
    return {position.src(0), position.src(1).int_value()};
  return {position, 0};
}

}  // namespace quern
