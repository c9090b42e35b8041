// Convolutions have a gradient of their own: that of the windows they are made of would add up overlapping
// parts, by indices that no loop can walk along. A convolution is known by GETTUPLE(TUPLE(y, x, weight), 0),
// which is y; the TUPLE's tag has the options.
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

struct ConvolutionShape {
  int64_t groups = 1;
  Ints stride, dilation;
};

// y is the convolution of x, padded already, by the weight.
UOp as_convolution(const UOp& y, const UOp& x, const UOp& weight, const ConvolutionShape& shape);

bool is_convolution(const UOp& tuple);
// Made of convolutions again, so that they have such gradients too.
UOp convolution_to_input(const UOp& tuple, const UOp& gradient);
UOp convolution_to_weight(const UOp& tuple, const UOp& gradient);

}  // namespace quern
