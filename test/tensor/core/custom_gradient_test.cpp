// Gradients that the author of a kernel gives.
#include "quern/tensor/core/custom_gradient.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/ir/shape/movement.h"
#include "quern/tensor/gradient/gradient.h"
#include "test/error_of.h"

namespace quern {
namespace {

using ::testing::HasSubstr;

UOp floats(int64_t size) { return new_buffer(dtypes::float32, size, device_node("CPU")); }
UOp kernel(const std::string& name) {
  return UOp::make(Op::SINK, dtypes::void_, {}, KernelArg{.name = name, .opts = {}});
}
UOp call_of(const UOp& sink, const UOps& arguments) {
  UOps sources{sink};
  sources.insert(sources.end(), arguments.begin(), arguments.end());
  return UOp::make(Op::CALL, dtypes::void_, sources);
}

TEST(CustomGradient, SeesTheGradientsOfAllResultsAtOnce) {
  const UOp a = floats(4), b = floats(4), x = floats(4);
  int calls = 0;
  const UOp call = with_custom_gradient(call_of(kernel("two results"), {a, b, x}),
                                        [&](const UOp& asked, std::span<const UOp> gradients) {
                                          calls++;
                                          EXPECT_EQ(asked.src(3), x);
                                          EXPECT_TRUE(gradients[0] && gradients[1] && !gradients[2]);
                                          return UOps{UOp(), UOp(), gradients[0] * gradients[1]};
                                        },
                                        {&calls});
  const UOp first = after(a, UOps{call}), second = after(b, UOps{call});
  const UOp loss = first * second;
  const UOp found = gradient(loss, UOps{x}, gradient_seed(loss))[0];
  const UOp seed = gradient_seed(loss);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(found, (seed * second) * (seed * first));
  EXPECT_FALSE(gradient(loss, UOps{floats(4)}, seed)[0]);
  EXPECT_EQ(calls, 1) << "it is not asked where the loss does not depend on the target";
}

TEST(CustomGradient, WrongUse) {
  const UOp out = floats(4), x = floats(4), sink = kernel("no gradient");
  const UOp call = call_of(sink, {out, x});
  const auto ask = [&](const UOp& of) {
    return error_of([&] {
      const UOp loss = after(out, UOps{of});
      gradient(loss, UOps{x}, gradient_seed(loss));
    });
  };
  EXPECT_THAT(ask(call), HasSubstr("a custom kernel was made without a gradient"));
  const auto none = [](const UOp&, std::span<const UOp>) { return UOps{}; };
  const auto wrong = [](const UOp&, std::span<const UOp>) { return UOps{UOp(), floats(3)}; };
  const UOp one = with_custom_gradient(call, none, {&none}),
            other = with_custom_gradient(call, wrong, {&wrong});
  EXPECT_THAT(ask(one), HasSubstr("custom kernel of 2 arguments gave 0 gradients"));
  EXPECT_THAT(
      ask(other),
      HasSubstr(
          "argument 1 of a custom kernel is float32 of shape (4,), its gradient float32 of shape (3,)"));
  EXPECT_THAT(ask(call), HasSubstr("a custom kernel was made without a gradient"));
  EXPECT_EQ(with_custom_gradient(call, none, {&none}), one);
  EXPECT_THAT(error_of([&] { with_custom_gradient(x, {}, {}); }), HasSubstr("is a CALL of a SINK"));
}

}  // namespace
}  // namespace quern
