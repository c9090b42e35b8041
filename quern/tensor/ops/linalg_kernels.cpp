#include "quern/tensor/ops/linalg_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "quern/tensor/core/support.h"
#include "quern/tensor/indexing/loop_kernel.h"

namespace quern::detail {
namespace {

constexpr int64_t kMostLanes = 32;   // neighbouring elements of a row that are computed at once
constexpr int64_t kMostSweeps = 40;  // of Jacobi, which ends when a sweep finds nothing to rotate

int64_t lanes_for(int64_t columns) {
  return std::min(kMostLanes, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(columns))));
}

// Matrices whose rows are filled up with zeros to whole groups of lanes.
struct Rows {
  Tensor padded;
  int64_t count = 1, rows, columns, lanes, groups;

  explicit Rows(const Tensor& x)
      : padded(x),
        rows(x.size(-2).value()),
        columns(x.size(-1).value()),
        lanes(lanes_for(columns)),
        groups((columns + lanes - 1) / lanes) {
    for (int64_t a = 0; a + 2 < x.ndim(); a++) count *= x.size(a).value();
    if (width() > columns) padded = x.pad({0, width() - columns});
  }
  int64_t width() const { return groups * lanes; }
  Shape shape_of(int64_t m, int64_t n) const {
    Shape shape = padded.shape();
    shape[shape.size() - 2] = m, shape.back() = n;
    return shape;
  }
};

UOp sqrt_of(const UOp& x) { return UOp::alu(Op::SQRT, {x}); }
UOp quotient(const UOp& a, const UOp& b) { return a / b; }
UOp absolute(const UOp& x) { return quern::max(x, -x); }
UOp float_of(DType dtype, double value) { return UOp::constant(dtype, value); }

UOps joined(UOps list, const UOps& more) {
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

// One value, or one for each lane, that steps of loops change.
class Register {
 public:
  Register(LoopBuilder& build, DType dtype, int64_t count = 1) : memory_(build.registers(dtype, count)) {}
  UOp at(const UOps& when, const UOp& lane = UOp::index(0)) const {
    return read(seen_after(memory_, when), lane);
  }
  UOp set(const UOps& when, const UOp& value, const UOp& lane = UOp::index(0)) const {
    return write(seen_after(memory_, when), lane, value);
  }

 private:
  UOp memory_;
};

UOp reflect(const UOps& memory, const Rows& x, int64_t steps) {
  LoopBuilder build;
  const UOp &vectors = memory[0], &reduced = memory[1], &given = memory[2];
  const DType dtype = given.dtype().base();
  const int64_t m = x.rows, width = x.width();
  const UOp zero = float_of(dtype, 0), one = float_of(dtype, 1);
  const Register largest(build, dtype), squares(build, dtype), sums(build, dtype, x.lanes);

  const UOp matrix = build.loop(x.count, AxisKind::GLOBAL), base = matrix * (m * width);
  const UOp e = build.loop(m * width);
  const UOp copied = ended(write(seen_after(reduced, {matrix, e}), base + e, read(given, base + e)), {e});

  const UOp i = build.loop(steps);
  const UOps step{copied, i};
  const auto column = [&](const UOps& when, const UOp& row) {
    return read(seen_after(reduced, when), base + row * width + i);
  };
  // Divided by the largest of them, elements have squares that neither overflow nor vanish.
  const UOp none = together({largest.set({matrix, i}, zero), squares.set({matrix, i}, zero)});
  const UOp a = build.loop(m - i);
  const UOps looking = joined(step, {none, a});
  const UOp looked =
      ended(largest.set(looking, quern::max(largest.at(looking), absolute(column(looking, i + a)))), {a});
  const UOp most = largest.at({looked}), safe = where(eq(most, zero), one, most);
  const UOp b = build.loop(m - i);
  const UOps adding = joined(step, {looked, b});
  const UOp part = quotient(column(adding, i + b), safe);
  const UOp added = ended(squares.set(adding, squares.at(adding) + part * part), {b});
  // The vector is x with its length added to the first element, with that one's sign: so nothing cancels.
  const UOps known = joined(step, {added});
  const UOp square = squares.at(known), norm = sqrt_of(square), head = quotient(column(known, i), safe);
  const UOp first = head + where(head < zero, -norm, norm);
  const UOp length = square + absolute(head) * norm;  // half of the square of the vector's length
  const UOp scale =
      where(eq(square, zero), zero, quotient(one, sqrt_of(where(eq(square, zero), one, length))));
  const UOp c = build.loop(m);
  const UOps storing = joined(known, {c});
  const UOp value = where(eq(c, i), first, quotient(column(storing, c), safe)) * scale;
  const UOp stored = ended(
      write(seen_after(vectors, storing), (matrix * steps + i) * m + c, where(c < i, zero, value)), {c});
  // All columns from this one on are reflected.
  const UOp group = build.loop(UOp::index(x.groups) - i / x.lanes),
            lane = build.loop(x.lanes, AxisKind::UPCAST);
  const UOps around = joined(step, {stored, group});
  const UOp place = base + (i / x.lanes + group) * x.lanes + lane;
  const auto at = [&](const UOps& when, const UOp& row) {
    return read(seen_after(reduced, when), place + row * width);
  };
  const auto vector = [&](const UOps& when, const UOp& row) {
    return read(seen_after(vectors, when), (matrix * steps + i) * m + row);
  };
  const UOp cleared = ended(sums.set({matrix, i, group}, zero, lane), {lane});
  const UOp d = build.loop(m - i);
  const UOps summing = joined(around, {cleared, d});
  const UOp summed = ended(
      ended(sums.set(summing, sums.at(summing, lane) + vector(summing, i + d) * at(summing, i + d), lane),
            {lane}),
      {d});
  const UOp f = build.loop(m - i);
  const UOps taking = joined(around, {summed, f});
  const UOp taken =
      ended(ended(write(seen_after(reduced, taking), place + (i + f) * width,
                        at(taking, i + f) - vector(taking, i + f) * sums.at(joined(around, {summed}), lane)),
                  {lane}),
            {f});
  return ended(ended(ended(taken, {group}), {i}), {matrix});
}

// Rows of the inverse do not depend on each other: each is solved from its diagonal on.
UOp invert(const UOps& memory, const Rows& x) {
  LoopBuilder build;
  const UOp &out = memory[0], &given = memory[1];
  const DType dtype = given.dtype().base();
  const int64_t n = x.rows, width = x.width();
  const UOp zero = float_of(dtype, 0), one = float_of(dtype, 1);
  const UOp rest = build.registers(dtype, width);  // of the unit row, what is not solved yet

  const UOp unit = build.loop(x.count * n, AxisKind::GLOBAL), row = unit % n, base = unit / n * (n * width);
  const UOp e = build.loop(width);
  const UOp started = ended(write(seen_after(rest, {unit, e}), e, where(eq(e, row), one, zero)), {e});
  const UOp c = build.loop(n);
  const UOp zeros = ended(write(seen_after(out, {unit, c}), unit * n + c, zero), {c});
  const UOp s = build.loop(n - row), column = row + s;
  const UOps step{started, zeros, s};
  const UOp solved =
      quotient(read(seen_after(rest, step), column), read(given, base + column * width + column));
  const UOp shown = write(seen_after(out, step), unit * n + column, solved);
  const UOp group = build.loop(UOp::index(x.groups) - column / x.lanes),
            lane = build.loop(x.lanes, AxisKind::UPCAST);
  const UOps around = joined(step, {shown, group});
  const UOp place = (column / x.lanes + group) * x.lanes + lane;
  const UOp value = read(seen_after(out, around), unit * n + column);
  const UOp factor = read(given, base + column * width + place);
  const UOp taken =
      ended(ended(write(seen_after(rest, around), place,
                        read(seen_after(rest, around), place) - value * where(column < place, factor, zero)),
                  {lane}),
            {group});
  return ended(ended(taken, {s}), {unit});
}

// A row of `work` is a row of x and, behind it, one of the rotation. The squares of the rows' lengths follow
// from the angles, and are computed anew for each sweep.
class Jacobi {
 public:
  Jacobi(const UOp& work, const Rows& x)
      : x_(x),
        work_(work),
        dtype_(work.dtype().base()),
        sums_(build_, dtype_, x.lanes),
        rotated_(build_, dtype_),
        sines_(build_, dtype_),
        halves_(build_, dtype_),
        squares_(build_.registers(dtype_, x.rows)),
        matrix_(build_.loop(x.count, AxisKind::GLOBAL)) {}

  UOp run(const UOp& given) {
    const UOp zero = number(0), one = number(1);
    const int64_t n = x_.rows, width = x_.width();
    const UOp y = build_.loop(n), e = build_.loop(2 * width);
    const UOp from_x = read(given, matrix_ * (n * width) + y * width + quern::min(e, UOp::index(width - 1)));
    const UOp start = where(e < width, from_x, where(eq(e, y + width), one, zero));
    const UOp copied =
        ended(ended(write(seen_after(work_, {matrix_, y, e}), first_of(y) + e, start), {e}), {y});
    const UOp to_do = rotated_.set({matrix_}, one);

    const UOp sweep = build_.loop(kMostSweeps);
    const UOps sweeping{copied, to_do, sweep};
    const UOp goes_on = zero < rotated_.at(sweeping);
    const UOp z = build_.loop(where(goes_on, UOp::index(n), UOp::index(0)));
    const Dot own = dot(z, z, sweeping, {matrix_, sweep}, {z});
    const UOp squared =
        ended(write(seen_after(squares_, joined(sweeping, {own.effect, z})), z, own.value), {z});
    const UOp none = rotated_.set(joined(sweeping, {squared}), zero);
    const UOps begun = joined(sweeping, {none});
    const UOp p = build_.loop(where(goes_on, UOp::index(n - 1), UOp::index(0)));
    const UOp other = build_.loop(n - 1 - p);
    return ended(
        ended(ended(ended(pair(p, p + 1 + other, begun, {matrix_, sweep}, {p, other}), {other}), {p}),
              {sweep}),
        {matrix_});
  }

 private:
  UOp number(double value) const { return float_of(dtype_, value); }
  UOp first_of(const UOp& row) const { return (matrix_ * x_.rows + row) * (2 * x_.width()); }
  UOp place(const UOp& row, const UOp& group, const UOp& lane) const {
    return first_of(row) + group * x_.lanes + lane;
  }

  // Of two rows: in lanes, of which the upper half is added to the lower until one is left. `after` has
  // happened, in the loops `around`, and `inner` are those in them.
  struct Dot {
    UOp effect, value;
  };
  Dot dot(const UOp& a, const UOp& b, const UOps& after, const UOps& around, const UOps& inner) {
    const UOps open = joined(around, inner), when = joined(after, inner);
    const UOp lane = build_.loop(x_.lanes, AxisKind::UPCAST);
    const UOp cleared = ended(sums_.set(open, number(0), lane), {lane});
    const UOp group = build_.loop(x_.groups);
    const UOps adding = joined(when, {cleared, group});
    const UOp memory = seen_after(work_, adding);
    UOp effect = ended(ended(sums_.set(adding,
                                       sums_.at(adding, lane) + read(memory, place(a, group, lane)) *
                                                                    read(memory, place(b, group, lane)),
                                       lane),
                             {lane}),
                       {group});
    for (int64_t left = x_.lanes / 2; left > 0; left /= 2) {
      const UOp half = left == 1 ? UOp::index(0) : build_.loop(left, AxisKind::UPCAST);
      const UOps summing = joined(when, {effect});
      const UOp sum = sums_.set(summing, sums_.at(summing, half) + sums_.at(summing, half + left), half);
      effect = left == 1 ? sum : ended(sum, {half});
    }
    return {effect, sums_.at(joined(when, {effect}))};
  }

  // Rotated, so that they are orthogonal.
  UOp pair(const UOp& p, const UOp& q, const UOps& after, const UOps& around, const UOps& inner) {
    const double epsilon = dtype_ == dtypes::float64 ? 0x1p-52 : 0x1p-23;
    const double tolerance = epsilon * std::sqrt(static_cast<double>(x_.rows));
    const UOp zero = number(0), one = number(1), large = number(1e8);
    const Dot both = dot(p, q, after, around, inner);
    const UOps known = joined(joined(after, inner), {both.effect});
    const UOp lengths = seen_after(squares_, known);
    const UOp alpha = read(lengths, p), beta = read(lengths, q), gamma = both.value;
    const UOp rotates = number(tolerance) * sqrt_of(alpha) * sqrt_of(beta) < absolute(gamma);
    const UOp zeta = quotient(beta - alpha, where(rotates, gamma + gamma, one)), size = absolute(zeta);
    // 1 / (size + sqrt(1 + size^2)), which is 1 / (2 size) where the square would overflow.
    const UOp bounded = quern::min(size, large);
    const UOp root = where(large < size, size, sqrt_of(bounded * bounded + one));
    const UOp tangent = where(rotates, quotient(where(zeta < zero, -one, one), size + root), zero);
    const UOp cosine = quotient(one, sqrt_of(tangent * tangent + one)), sine = cosine * tangent;
    // The tangent of half of the angle: so rows that are hardly rotated are hardly rounded.
    const UOp half = quotient(sine, one + cosine);
    const UOp less = tangent * gamma;
    const UOp decided = together({sines_.set(known, sine), halves_.set(known, half),
                                  write(lengths, p, quern::max(alpha - less, zero)),
                                  write(lengths, q, quern::max(beta + less, zero)),
                                  rotated_.set(known, where(rotates, one, rotated_.at(known)))});
    const UOp turns = sines_.at(joined(known, {decided}));  // 0 where nothing is rotated
    const UOp group = build_.loop(where(eq(turns, zero), UOp::index(0), UOp::index(2 * x_.groups)));
    const UOp lane = build_.loop(x_.lanes, AxisKind::UPCAST);
    const UOps turning = joined(known, {decided, group});
    const UOp s = sines_.at(joined(known, {decided})), t = halves_.at(joined(known, {decided}));
    const UOp now = seen_after(work_, turning);
    const UOp u = read(now, place(p, group, lane)), v = read(now, place(q, group, lane));
    return ended(ended(together({write(now, place(p, group, lane), u - s * (v + t * u)),
                                 write(now, place(q, group, lane), v + s * (u - t * v))}),
                       {lane}),
                 {group});
  }

  LoopBuilder build_;
  const Rows& x_;
  const UOp work_;
  const DType dtype_;
  const Register sums_, rotated_, sines_, halves_;
  const UOp squares_, matrix_;
};

}  // namespace

Reflections reflections(const Tensor& x) {
  const Rows rows(x);
  const int64_t steps = std::min(rows.rows - 1, rows.columns);
  const std::vector<Tensor> found = run_loops(
      "reflections",
      {{x.dtype(), rows.shape_of(steps, rows.rows)}, {x.dtype(), rows.shape_of(rows.rows, rows.width())}},
      {rows.padded}, [&](const UOps& memory) { return reflect(memory, rows, steps); });
  return {found[0], part(found[1], -1, 0, rows.columns)};
}

Tensor upper_inverse(const Tensor& x) {
  if (!has_elements(x)) return x;
  const Rows rows(x);
  return run_loops(
      "upper_inverse", {{x.dtype(), x.shape()}}, {rows.padded},
      [&](const UOps& memory) { return invert(memory, rows); },
      [](const KernelValues& v) {
        const Tensor turned = v.outputs[0].transpose(-2, -1);
        const int64_t filled = v.inputs[0].size(-1).value() - turned.size(-1).value();
        const Tensor found = -turned.dot(v.given[0]).dot(turned).triu();
        return std::vector<std::optional<Tensor>>{found.pad({0, filled})};
      })[0];
}

Rotations jacobi(const Tensor& x) {
  if (!has_elements(x) || x.size(-2) == Dim(1)) return {x, x.ones_like()};
  const Rows rows(x);
  const Tensor work =
      run_loops("jacobi", {{x.dtype(), rows.shape_of(rows.rows, 2 * rows.width())}}, {rows.padded},
                [&](const UOps& memory) { return Jacobi(memory[0], rows).run(memory[1]); })[0];
  return {part(work, -1, 0, rows.columns), part(work, -1, rows.width(), rows.width() + rows.columns)};
}

}  // namespace quern::detail
