#include "quern/io/gguf_blocks.h"

#include <array>

namespace quern::io {
namespace {

// ---- Parts of blocks. All have the blocks as their first axis.

Tensor part(const Tensor& blocks, int64_t begin, int64_t count) {
  return blocks.shrink({{}, {{Dim(begin), Dim(begin + count)}}});
}

Tensor as_int(const Tensor& x) { return x.cast(dtypes::int32); }

// The two bytes from `at` on as a float16, in (blocks, 1).
Tensor half(const Tensor& blocks, int64_t at) {
  const Tensor low = part(blocks, at, 1).cast(dtypes::uint16),
               high = part(blocks, at + 1, 1).cast(dtypes::uint16);
  return (low | high.lshift(8)).bitcast(dtypes::float16).f32();
}

// Fields of `width` bits of each byte, the lowest first: (..., n) becomes (..., 8 / width, n).
Tensor fields(const Tensor& bytes, int width) {
  Shape one(static_cast<size_t>(bytes.ndim()) + 1, Dim(1));
  one[one.size() - 2] = 8 / width;
  const Tensor shifts = Tensor::arange(0, 8, width, {.dtype = dtypes::uint8}).reshape(one);
  return bytes.unsqueeze(-2).rshift(shifts) & ((1 << width) - 1);
}

// ---- Blocks of 32: a scale, perhaps an offset, and numbers of 4, 5 or 8 bits. Of those of 4 bits, the low
// halves of all bytes come first.

Tensor nibbles(const Tensor& blocks, int64_t at) {
  return as_int(fields(part(blocks, at, 16), 4).flatten(1));
}

Tensor with_fifth_bit(const Tensor& blocks, int64_t bits_at, int64_t at) {
  const Tensor bits = fields(part(blocks, bits_at, 4), 1).transpose(1, 2).flatten(1);  // bit i of 32
  return nibbles(blocks, at) + as_int(bits) * 16;
}

Tensor q4_0(const Tensor& b) { return half(b, 0) * (nibbles(b, 2) - 8).f32(); }
Tensor q4_1(const Tensor& b) { return half(b, 0) * nibbles(b, 4).f32() + half(b, 2); }
Tensor q5_0(const Tensor& b) { return half(b, 0) * (with_fifth_bit(b, 2, 6) - 16).f32(); }
Tensor q5_1(const Tensor& b) { return half(b, 0) * with_fifth_bit(b, 4, 8).f32() + half(b, 2); }
Tensor q8_0(const Tensor& b) { return half(b, 0) * part(b, 2, 32).bitcast(dtypes::int8).f32(); }

// A power of two for the block; its numbers have a sign, two bits of exponent and one of significand.
Tensor mxfp4(const Tensor& b) {
  const Tensor e = part(b, 0, 1).cast(dtypes::uint32);
  // 2^(e - 128), which is subnormal for e < 2; the numbers below are doubled
  const Tensor scale = e.lt(2).where(Tensor::full({1}, 1 << 21, {.dtype = dtypes::uint32}).lshift(e),
                                     e.maximum(1).sub(1).lshift(23));
  const Tensor q = nibbles(b, 1), m = q & 7;
  const Tensor magnitude = m.lt(4).where(m, ((m & 1) * 2 + 4).lshift(m.rshift(1).maximum(2) - 2));
  return scale.bitcast(dtypes::float32) * q.lt(8).where(magnitude, -magnitude).f32();
}

// ---- Blocks of 256: eight parts of 32, with scales and offsets of 6 bits; or sixteen of 16.

struct Scales {
  Tensor scale, offset;  // (blocks, 8, 1)
};

// Twelve bytes: the low six bits of the first four are scales, those of the next four offsets; the last four
// have the low halves of four more of each, whose upper bits are the two left in the others.
Scales six_bits(const Tensor& b) {
  const Tensor first = part(b, 4, 4), second = part(b, 8, 4), third = part(b, 12, 4);
  const Tensor is_second = Tensor::arange(2).reshape({2, 1}).eq(1);
  // A choice, not cat(): all bytes are loaded without a condition.
  const auto joined = [&](const Tensor& low, const Tensor& more, const Tensor& upper) {
    const Tensor wide = more | upper.rshift(6).lshift(4);
    return is_second.where(wide.unsqueeze(1), (low & 63).unsqueeze(1)).reshape({-1, 8, 1}).f32();
  };
  return {half(b, 0).unsqueeze(-1) * joined(first, third & 15, first),
          half(b, 2).unsqueeze(-1) * joined(second, third.rshift(4), second)};
}

// 128 bytes: of each 32, the low halves are one part and the high halves the next.
Tensor parts_of_32(const Tensor& b, int64_t at) {
  return as_int(fields(part(b, at, 128).unflatten(1, {4, 32}), 4).flatten(1, 2));
}

Tensor q4_k(const Tensor& b) {
  const auto [scale, offset] = six_bits(b);
  return (scale * parts_of_32(b, 16).f32() - offset).flatten(1);
}

Tensor q5_k(const Tensor& b) {
  const auto [scale, offset] = six_bits(b);
  const Tensor q = parts_of_32(b, 48) + as_int(fields(part(b, 16, 32), 1)) * 16;
  return (scale * q.f32() - offset).flatten(1);
}

// Each half of the block: 64 bytes of low bits, whose low halves are 64 numbers and whose high halves 64
// more, and 32 bytes that have two upper bits of four parts.
Tensor q6_k(const Tensor& b) {
  const Tensor low = fields(part(b, 0, 128).unflatten(1, {2, 64}), 4).reshape({-1, 2, 4, 32});
  const Tensor high = fields(part(b, 128, 64).unflatten(1, {2, 32}), 2);
  const Tensor q = (as_int(low) + as_int(high) * 16 - 32).reshape({-1, 16, 16});
  const Tensor scale = half(b, 208) * part(b, 192, 16).bitcast(dtypes::int8).f32();
  return (scale.unsqueeze(-1) * q.f32()).flatten(1);
}

constexpr std::array<BlockType, 17> kTypes = {{
    {0, "F32", 1, 4, dtypes::float32, nullptr},
    {1, "F16", 1, 2, dtypes::float16, nullptr},
    {2, "Q4_0", 32, 18, dtypes::float32, q4_0},
    {3, "Q4_1", 32, 20, dtypes::float32, q4_1},
    {6, "Q5_0", 32, 22, dtypes::float32, q5_0},
    {7, "Q5_1", 32, 24, dtypes::float32, q5_1},
    {8, "Q8_0", 32, 34, dtypes::float32, q8_0},
    {12, "Q4_K", 256, 144, dtypes::float32, q4_k},
    {13, "Q5_K", 256, 176, dtypes::float32, q5_k},
    {14, "Q6_K", 256, 210, dtypes::float32, q6_k},
    {24, "I8", 1, 1, dtypes::int8, nullptr},
    {25, "I16", 1, 2, dtypes::int16, nullptr},
    {26, "I32", 1, 4, dtypes::int32, nullptr},
    {27, "I64", 1, 8, dtypes::int64, nullptr},
    {28, "F64", 1, 8, dtypes::float64, nullptr},
    {30, "BF16", 1, 2, dtypes::bfloat16, nullptr},
    {39, "MXFP4", 32, 17, dtypes::float32, mxfp4},
}};

}  // namespace

const BlockType* block_type(uint32_t id) {
  for (const BlockType& type : kTypes)
    if (type.id == id) return &type;
  return nullptr;
}

}  // namespace quern::io
