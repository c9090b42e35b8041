// Dtypes and numbers that tests of constants go through.
#pragma once

#include <limits>

#include "quern/ir/node/const.h"

namespace quern {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

inline constexpr DType kNarrowFloats[] = {dtypes::fp8e4m3, dtypes::fp8e5m2, dtypes::float16,
                                          dtypes::bfloat16};
inline constexpr DType kFloats[] = {dtypes::fp8e4m3,  dtypes::fp8e5m2, dtypes::float16,
                                    dtypes::bfloat16, dtypes::float32, dtypes::float64};
inline constexpr DType kIntegers[] = {dtypes::index,  dtypes::int8,   dtypes::uint8,
                                      dtypes::int16,  dtypes::uint16, dtypes::int32,
                                      dtypes::uint32, dtypes::int64,  dtypes::uint64};

// NaN is the same as NaN, and 0.0 is not the same as -0.0.
inline bool same(double a, double b) { return Const::of_float(a) == Const::of_float(b); }

}  // namespace quern
