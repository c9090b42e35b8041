#include "quern/tensor/indexing/sort_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "quern/tensor/core/assign.h"
#include "quern/tensor/core/support.h"

namespace quern::detail {
namespace {

constexpr int64_t kDigit = 8, kDigits = 256;  // bits, and values of a digit
constexpr int64_t kPiece = 4096;              // elements that one thread does by itself
constexpr int64_t kSmallestGroup = 16;        // elements of which the least stands for all
constexpr int64_t kNear = 1024;               // rows up to this length are sorted in memory of the thread
constexpr int64_t kParts = 16;                // of a long row, where there are fewer rows than this

int64_t pieces_of(int64_t n, int64_t size) { return (n + size - 1) / size; }
UOp index_of(const UOp& value) { return value.cast(dtypes::index); }
UOp as(const UOp& value, DType dtype) { return value.cast(dtype); }

struct Rows {
  int64_t count = 1, n;

  explicit Rows(const Tensor& x) : n(x.size(-1).value()) {
    for (int64_t a = 0; a + 1 < x.ndim(); a++) count *= x.size(a).value();
  }
};

Shape with_last(const Tensor& x, int64_t n) {
  Shape shape = x.shape();
  shape.back() = n;
  return shape;
}

// One value in a register that steps of loops change.
class Cell {
 public:
  Cell(LoopBuilder& build, DType dtype) : memory_(build.registers(dtype)) {}
  UOp at(const UOps& when) const { return read(seen_after(memory_, when), UOp::index(0)); }
  UOp set(const UOps& when, const UOp& value) const {
    return write(seen_after(memory_, when), UOp::index(0), value);
  }
  UOp set(const UOps& when, int64_t value) const {
    return set(when, UOp::constant(memory_.dtype().base(), value));
  }

 private:
  UOp memory_;
};

UOps with(UOps list, const UOps& more) {
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

UOp digit_of(const UOp& key, const UOp& shift) {
  return index_of((key >> as(shift, key.dtype())) & (kDigits - 1));
}

// ---- sorting: from the lowest digit to the highest, each time stable

UOp sort_rows(const UOps& memory, const Rows& rows, int64_t bits, bool near) {
  LoopBuilder build;
  const UOp &out = memory[0], &in = memory[near ? 1 : 3];
  const DType key_type = in.dtype().base();
  const int64_t digits = bits / kDigit;
  const UOp keys = near ? build.registers(key_type, 2 * rows.n) : memory[1],
            places = near ? build.registers(dtypes::int32, 2 * rows.n) : memory[2],
            counts = build.registers(dtypes::int32, digits * kDigits);
  const Cell side(build, dtypes::int32), sum(build, dtypes::int32), most(build, dtypes::int32);

  const UOp row = build.loop(rows.count, AxisKind::GLOBAL);
  const UOp base = near ? UOp::index(0) : row * (2 * rows.n);
  // how often there is each value of each digit
  const UOp cleared = build.loop(digits * kDigits);
  const UOp zeros =
      ended(write(seen_after(counts, {row, cleared}), cleared, UOp::constant(dtypes::int32, 0)), {cleared});
  const UOp i = build.loop(rows.n);
  const UOp key = read(in, row * rows.n + i);
  UOps first{write(seen_after(keys, {row, i}), base + i, key),
             write(seen_after(places, {row, i}), base + i, as(i, dtypes::int32))};
  for (int64_t d = 0; d < digits; d++) {
    const UOp counter = digit_of(key, UOp::index(d * kDigit)) + d * kDigits,
              now = seen_after(counts, {zeros, i});
    first.push_back(write(now, counter, read(now, counter) + 1));
  }
  const UOp counted = ended(together(first), {i}), started = side.set({row}, 0);

  const UOp digit = build.loop(digits);
  const UOps pass{counted, started, digit};
  // where each value begins
  const UOp none = together({sum.set({row, digit}, 0), most.set({row, digit}, 0)});
  const UOp value = build.loop(kDigits), counter = digit * kDigits + value;
  const UOps values = with(pass, {none, value});
  const UOp count = read(seen_after(counts, values), counter);
  const UOp begins = ended(together({write(seen_after(counts, values), counter, sum.at(values)),
                                     sum.set(values, sum.at(values) + count),
                                     most.set(values, quern::max(most.at(values), count))}),
                           {value});
  // a digit that is the same everywhere changes nothing
  const UOp same_everywhere = eq(most.at({begins}), UOp::constant(dtypes::int32, rows.n));
  const UOp j = build.loop(where(same_everywhere, UOp::index(0), UOp::index(rows.n)));
  const UOps moves = with(pass, {begins, j});
  const UOp now = side.at(pass), from = base + index_of(now) * rows.n + j;
  const UOp moved = read(seen_after(keys, moves), from), place = read(seen_after(places, moves), from);
  const UOp slot = digit * kDigits + digit_of(moved, digit * kDigit);
  const UOp next = read(seen_after(counts, moves), slot);
  const UOp to = base + index_of(1 - now) * rows.n + index_of(next);
  const UOp spread = ended(
      together({write(seen_after(counts, moves), slot, next + 1), write(seen_after(keys, moves), to, moved),
                write(seen_after(places, moves), to, place)}),
      {j});
  const UOp sorted = ended(side.set(with(pass, {spread}), where(same_everywhere, now, 1 - now)), {digit});

  const UOp k = build.loop(rows.n);
  const UOp found = read(seen_after(places, {sorted, k}), base + index_of(side.at({sorted})) * rows.n + k);
  return ended(ended(write(out, row * rows.n + k, as(found, out.dtype().base())), {k}), {row});
}

// ---- the same, of few long rows in parts: for each digit, three kernels

struct RowParts {
  static constexpr int64_t kLeast = 8 * kDigits;  // elements: there are few counts beside them
  int64_t count, size;

  explicit RowParts(const Rows& rows)
      : count(pieces_of(rows.n, std::max(kLeast, pieces_of(rows.n, kParts)))),
        size(std::max(kLeast, pieces_of(rows.n, kParts))) {}
  Shape counts(const Rows& rows) const { return {Dim(rows.count), Dim(kDigits), Dim(count)}; }
};

// Where a part of a row is: its row, where it begins there, and how many elements it has.
struct RowPart {
  UOp loop, row, number, first, size;

  RowPart(LoopBuilder& build, const Rows& rows, const RowParts& parts)
      : loop(build.loop(rows.count * parts.count, AxisKind::GLOBAL)),
        row(loop / parts.count),
        number(loop % parts.count),
        first(number * parts.size),
        size(quern::min(UOp::index(parts.size), rows.n - first)) {}
  UOp counter(const UOp& value, const RowParts& parts) const {
    return (row * kDigits + value) * parts.count + number;
  }
};

// How often each part has each value of a digit.
UOp count_digits(const UOps& memory, const Rows& rows, const RowParts& parts, int64_t shift) {
  LoopBuilder build;
  const UOp counts = build.registers(dtypes::int32, kDigits);
  const RowPart part(build, rows, parts);
  const UOp cleared = build.loop(kDigits);
  const UOp zeros = ended(
      write(seen_after(counts, {part.loop, cleared}), cleared, UOp::constant(dtypes::int32, 0)), {cleared});
  const UOp i = build.loop(part.size), now = seen_after(counts, {zeros, i});
  const UOp slot = digit_of(read(memory[1], part.row * rows.n + part.first + i), UOp::index(shift));
  const UOp counted = ended(write(now, slot, read(now, slot) + 1), {i});
  const UOp value = build.loop(kDigits);
  const UOp stored =
      write(memory[0], part.counter(value, parts), read(seen_after(counts, {counted, value}), value));
  return ended(ended(stored, {value}), {part.loop});
}

// Where in its row each value of each part begins.
UOp begin_digits(const UOps& memory, const Rows& rows, const RowParts& parts) {
  LoopBuilder build;
  const Cell sum(build, dtypes::int32);
  const int64_t n = kDigits * parts.count;
  const UOp row = build.loop(rows.count, AxisKind::GLOBAL), none = sum.set({row}, 0), i = build.loop(n);
  const UOps when{none, i};
  const UOp at = row * n + i, before = sum.at(when);
  const UOp after = before + read(memory[1], at);
  return ended(ended(together({write(memory[0], at, before), sum.set(when, after)}), {i}), {row});
}

// memory: the places, and, if there is another digit, the keys, in the order of this one; where each value of
// it begins, the keys, and, if there was another digit, the places as they are.
UOp move_by_digit(const UOps& memory, const Rows& rows, const RowParts& parts, int64_t shift, bool is_first,
                  bool is_last) {
  LoopBuilder build;
  const size_t inputs = is_last ? 1 : 2;
  const UOp &begins = memory[inputs], &keys = memory[inputs + 1];
  const UOp counts = build.registers(dtypes::int32, kDigits);
  const RowPart part(build, rows, parts);
  const UOp value = build.loop(kDigits);
  const UOp loaded =
      ended(write(seen_after(counts, {part.loop, value}), value, read(begins, part.counter(value, parts))),
            {value});
  const UOp i = build.loop(part.size), now = seen_after(counts, {loaded, i});
  const UOp place = part.first + i, from = part.row * rows.n + place, key = read(keys, from);
  const UOp slot = digit_of(key, UOp::index(shift)), next = read(now, slot);
  const UOp to = part.row * rows.n + index_of(next);
  const UOp moved = is_first ? place : read(memory[inputs + 2], from);
  UOps moves{write(now, slot, next + 1), write(memory[0], to, as(moved, memory[0].dtype().base()))};
  if (!is_last) moves.push_back(write(memory[1], to, key));
  return ended(ended(together(moves), {i}), {part.loop});
}

Tensor places_sorted_in_parts(const SortKeys& given, const Rows& rows, DType index) {
  const RowParts parts(rows);
  Tensor keys = in_new_memory("sort", given.keys), places = keys;  // there are none yet
  for (int64_t shift = 0; shift < given.bits; shift += kDigit) {
    const bool is_first = shift == 0, is_last = shift + kDigit >= given.bits;
    const Tensor counts =
        run_loops("count_digits", {{dtypes::int32, parts.counts(rows)}}, {keys},
                  [&](const UOps& memory) { return count_digits(memory, rows, parts, shift); })[0];
    const Tensor begins = run_loops("begin_digits", {{dtypes::int32, parts.counts(rows)}}, {counts},
                                    [&](const UOps& memory) { return begin_digits(memory, rows, parts); })[0];
    std::vector<KernelOutput> outputs{{is_last ? index : dtypes::int32, keys.shape()}};
    std::vector<Tensor> inputs{begins, keys};
    if (!is_last) outputs.push_back({keys.dtype(), keys.shape()});
    if (!is_first) inputs.push_back(places);
    const std::vector<Tensor> moved = run_loops("move_by_digit", outputs, inputs, [&](const UOps& memory) {
      return move_by_digit(memory, rows, parts, shift, is_first, is_last);
    });
    places = moved[0];
    if (!is_last) keys = moved[1];
  }
  return places;
}

// ---- the least: digit by digit from the highest, which of them is the greatest that is still taken

UOp select_in_rows(const UOps& memory, const Rows& rows, int64_t bits, int64_t k) {
  LoopBuilder build;
  const UOp &out = memory[0], &left_over = memory[1], &in = memory[2];
  const DType key_type = in.dtype().base();
  const int64_t digits = bits / kDigit, top = bits - kDigit;
  const UOp counts = build.registers(dtypes::int32, kDigits);
  const Cell sum(build, dtypes::int32), digit(build, dtypes::int32), below(build, dtypes::int32),
      wanted(build, dtypes::int32), candidates(build, dtypes::int32), taken(build, dtypes::int32),
      limit(build, key_type);

  const UOp row = build.loop(rows.count, AxisKind::GLOBAL), steps = UOp::index(rows.n);
  const UOp base = row * rows.n;

  // Counts keys by a digit, and finds that of the last one that is wanted. `around` is what is open, `after`
  // what has happened; the loop over keys is given.
  struct Found {
    UOp effect, digit, below;
  };
  const auto find = [&](const UOps& around, const UOps& after, const UOp& loop, const UOp& slot,
                        const UOp& counted) {
    const UOp cleared = build.loop(kDigits);
    const UOp zeros =
        ended(write(seen_after(counts, with(around, {cleared})), cleared, UOp::constant(dtypes::int32, 0)),
              {cleared});
    const UOp now = seen_after(counts, with(after, {zeros, loop}));
    const UOp all = ended(write(now, slot, read(now, slot) + counted), {loop});
    const UOp none = together({sum.set(around, 0), digit.set(around, 0), below.set(around, 0)});
    const UOp value = build.loop(kDigits);
    const UOps when = with(after, {all, none, value});
    const UOp before = sum.at(when), with_it = before + read(seen_after(counts, when), value);
    const UOp last = wanted.at(with(after, {value}));
    const UOp is_it = (before < last) & (with_it >= last);
    const UOp effect =
        ended(together({sum.set(when, with_it),
                        digit.set(when, where(is_it, as(value, dtypes::int32), digit.at(when))),
                        below.set(when, where(is_it, before, below.at(when)))}),
              {value});
    return Found{effect, digit.at({effect}), below.at({effect})};
  };

  // the highest digit, of all
  const UOps open{row};
  const UOp all_wanted = wanted.set(open, k), i = build.loop(steps);
  const Found highest = find(open, {all_wanted}, i, digit_of(read(in, base + i), UOp::index(top)),
                             UOp::constant(dtypes::int32, 1));
  const UOp rest = wanted.set({highest.effect}, UOp::constant(dtypes::int32, k) - highest.below);
  const UOp start = limit.set({highest.effect}, as(highest.digit, key_type)
                                                    << UOp::constant(key_type, static_cast<wide>(top)));
  // the others, of those keys that have it
  const UOp no_candidate = candidates.set(open, 0), j = build.loop(steps);
  const UOps gathering{highest.effect, no_candidate, j};
  const UOp key = read(in, base + j), number_so_far = candidates.at(gathering);
  const UOp has_digit = eq(digit_of(key, UOp::index(top)), index_of(highest.digit));
  const UOp gathered =
      ended(together({write(seen_after(left_over, {row, j}), base + index_of(number_so_far), key),
                      candidates.set(gathering, number_so_far + as(has_digit, dtypes::int32))}),
            {j});
  UOps ready{rest, start, gathered};
  if (digits > 1) {
    const UOp pass = build.loop(digits - 1);
    const UOp shift = (digits - 2 - pass) * kDigit;
    const UOps around{row, pass}, after = with(ready, {pass});
    const UOp c = build.loop(index_of(candidates.at({gathered})));
    const UOp candidate = read(seen_after(left_over, with(after, {c})), base + c), so_far = limit.at(after);
    const UOp higher = as(shift + kDigit, key_type);
    const UOp is_alike = eq(candidate >> higher, so_far >> higher);
    const Found found = find(around, after, c, digit_of(candidate, shift), as(is_alike, dtypes::int32));
    const UOps when = with(after, {found.effect});
    ready = {ended(together({wanted.set(when, wanted.at(after) - found.below),
                             limit.set(when, so_far | (as(found.digit, key_type) << as(shift, key_type)))}),
                   {pass})};
  }

  // all below the limit, and as many of those that are equal to it as are still wanted
  const UOp none_taken = taken.set(open, 0), e = build.loop(steps);
  const UOps taking = with(ready, {none_taken, e});
  const UOp each = read(in, base + e), last = limit.at(ready), equal_left = wanted.at(taking);
  const UOp equal = eq(each, last) & (equal_left > 0), takes = (each < last) | equal, to = taken.at(taking);
  const UOp place = where(takes, row * k + index_of(to), UOp::invalid());
  return ended(ended(together({write(out, place, as(e, out.dtype().base())),
                               taken.set(taking, to + as(takes, dtypes::int32)),
                               wanted.set(taking, equal_left - as(equal, dtypes::int32))}),
                     {e}),
               {row});
}

}  // namespace

SortKeys sort_keys(const Tensor& x, bool descending) {
  const DType dtype = x.dtype();
  const int bits = dtype.is_bool() ? 8 : static_cast<int>(dtype.bits());
  const DType unsigned_type = unsigned_of(bits);
  Tensor keys = x;
  if (dtype.is_bool()) {
    keys = x.cast(dtypes::uint8);
  } else if (dtype.is_float()) {
    const Tensor raw = x.eq(0).where(0, x).bitcast(unsigned_type);
    const Tensor sign = detail::number(wide{1} << (bits - 1), unsigned_type, raw.shape());
    const Tensor is_negative = raw.bitwise_and(sign).ne(0);
    const Tensor ordered = is_negative.where(raw.bitwise_not(), raw.bitwise_or(sign));
    keys = x.isnan().where(like(raw, 0).bitwise_not(), ordered);
  } else if (dtype.is_int() && !dtype.is_unsigned()) {
    const Tensor raw = x.bitcast(unsigned_type);
    keys = raw.bitwise_xor(detail::number(wide{1} << (bits - 1), unsigned_type, raw.shape()));
  }
  if (descending) keys = keys.bitwise_not();
  return {bits < 32 ? keys.cast(dtypes::uint32) : keys, bits};
}

Tensor sorted_places(const SortKeys& keys, DType index) {
  const Rows rows(keys.keys);
  const bool near = rows.n <= kNear;
  if (!near && rows.count < kParts && RowParts(rows).count > 1)
    return places_sorted_in_parts(keys, rows, index);
  std::vector<KernelOutput> outputs{{index, keys.keys.shape()}};
  if (!near)
    for (const DType d : {keys.keys.dtype(), dtypes::int32})
      outputs.push_back({d, {Dim(rows.count), Dim(2), Dim(rows.n)}});
  return run_loops("sort", outputs, {keys.keys},
                   [&](const UOps& memory) { return sort_rows(memory, rows, keys.bits, near); })[0];
}

namespace {

// Rows in pieces: a loop over all, and a loop in each. Returns what `body` makes of a row and a place in it.
template <class Body>
UOp over_pieces(int64_t rows, int64_t n, const Body& body) {
  LoopBuilder build;
  const int64_t pieces = pieces_of(n, kPiece);
  const UOp part = build.loop(rows * pieces, AxisKind::GLOBAL), first = part % pieces * kPiece;
  const UOp i = build.loop(quern::min(UOp::index(kPiece), n - first));
  return ended(ended(body(part / pieces, first + i), {i}), {part});
}

}  // namespace

Tensor picked(const Tensor& x, const Tensor& places) {
  const Rows from(x), to(places);
  return run_loops(
      "pick", {{x.dtype(), places.shape()}}, {x, places},
      [&](const UOps& memory) {
        return over_pieces(to.count, to.n, [&](const UOp& row, const UOp& i) {
          const UOp at = row * to.n + i;
          return write(memory[0], at, read(memory[1], row * from.n + index_of(read(memory[2], at))));
        });
      },
      [n = from.n](const KernelValues& v) {
        return std::vector<std::optional<Tensor>>{put_back(v.given[0], v.inputs[1], n), std::nullopt};
      })[0];
}

// Groups of neighbours whose least key is not among the k least of all groups have none of the k least keys:
// one pass over x finds these minima, and what is left to look at are few.
Tensor least_places(const Tensor& x, bool descending, int64_t k, DType index) {
  const Rows rows(x);
  const SortKeys keys = sort_keys(x, descending);
  const auto group = static_cast<int64_t>(
      std::bit_floor(static_cast<uint64_t>(std::sqrt(static_cast<double>(rows.n) / static_cast<double>(k)))));
  if (group < kSmallestGroup)
    return run_loops("select", {{index, with_last(x, k)}, {keys.keys.dtype(), x.shape()}}, {keys.keys},
                     [&](const UOps& memory) { return select_in_rows(memory, rows, keys.bits, k); })[0];
  const int64_t groups = pieces_of(rows.n, group), padded = groups * group;
  // What is behind the end is behind all others, also behind those that are as great.
  const Tensor greatest = detail::number(0, keys.keys.dtype(), {}).bitwise_not();
  Tensor all = keys.keys;
  if (padded != rows.n) {
    std::vector<std::pair<Dim, Dim>> padding(static_cast<size_t>(x.ndim()), {Dim(0), Dim(0)});
    padding.back().second = padded - rows.n;
    all = detail::iota(padded, dtypes::int64).lt(rows.n).where(all.pad_axes(padding, 0), greatest);
  }
  Shape cut = with_last(x, groups), flat = with_last(x, k * group);
  cut.emplace_back(group);
  const Tensor minima = in_new_memory("topk", detail::reduced("topk", all.reshape(cut), Op::MIN, -1, false));
  const Tensor first = least_places(minima, false, k, index) * group;
  const Tensor places =
      in_new_memory("topk", (first.unsqueeze(-1) + detail::iota(group, index)).reshape(flat));
  const Tensor within = padded != rows.n ? places.minimum(rows.n - 1) : places;
  Tensor candidates = sort_keys(picked(x, within), descending).keys;
  if (padded != rows.n) candidates = places.lt(rows.n).where(candidates, greatest);
  return picked(places, least_places(in_new_memory("topk", candidates), false, k, index));
}

Tensor put_back(const Tensor& x, const Tensor& places, int64_t n) {
  const Rows rows(places);
  return run_loops(
      "put_back", {{x.dtype(), with_last(x, n)}}, {x, places},
      [&](const UOps& memory) {
        const auto moved = [&](const UOp& out, const UOp& row, const UOp& i) {
          const UOp at = row * rows.n + i;
          return write(out, row * n + index_of(read(memory[2], at)), read(memory[1], at));
        };
        if (rows.n == n)  // each place is there once
          return over_pieces(rows.count, n,
                             [&](const UOp& row, const UOp& i) { return moved(memory[0], row, i); });
        LoopBuilder build;
        const UOp row = build.loop(rows.count, AxisKind::GLOBAL), z = build.loop(n);
        const UOp zeros =
            ended(write(memory[0], row * n + z, UOp::constant(x.dtype(), make_const(x.dtype(), 0))), {z});
        const UOp i = build.loop(rows.n);
        return ended(ended(moved(seen_after(memory[0], {zeros, i}), row, i), {i}), {row});
      },
      [](const KernelValues& v) {
        return std::vector<std::optional<Tensor>>{picked(v.given[0], v.inputs[1]), std::nullopt};
      },
      fmt::format("{}", n))[0];
}

Tensor true_places(const Tensor& mask, int64_t count, DType index) {
  const int64_t n = mask.size(0).value(), pieces = pieces_of(n, kPiece);
  const Tensor counts =
      mask.pad_axes({{0, pieces * kPiece - n}}, false).reshape({pieces, kPiece}).sum(1, false, dtypes::int64);
  const Tensor ends = counts.cumsum(0);
  // What is not true is written behind the end, where nobody looks: there is a place there for each piece.
  const Tensor all = run_loops(
      "true_places", {{index, {Dim(count + pieces)}}}, {mask, ends - counts}, [&](const UOps& memory) {
        LoopBuilder build;
        const Cell so_far(build, dtypes::int64);
        const UOp part = build.loop(pieces, AxisKind::GLOBAL), first = part * kPiece;
        const UOp start = so_far.set({part}, read(memory[2], part));
        const UOp i = build.loop(quern::min(UOp::index(kPiece), n - first));
        const UOps when{start, i};
        const UOp at = first + i, is_true = read(memory[1], at), to = so_far.at(when);
        return ended(
            ended(together({write(memory[0], where(is_true, index_of(to), count + part), as(at, index)),
                            so_far.set(when, to + as(is_true, dtypes::int64))}),
                  {i}),
            {part});
      })[0];
  return part(all, 0, 0, count);
}

Tensor places_in_sorted(const Tensor& sorted, const Tensor& values, bool right, DType index) {
  const Rows in(sorted), of(values);
  const bool one_row = sorted.ndim() == 1;
  const auto rounds = static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(in.n)));
  return run_loops("search", {{index, values.shape()}}, {sorted, values}, [&](const UOps& memory) {
    LoopBuilder build;
    const Cell low(build, dtypes::int64), high(build, dtypes::int64);
    const int64_t pieces = pieces_of(of.n, kPiece);
    const UOp part = build.loop(of.count * pieces, AxisKind::GLOBAL), first = part % pieces * kPiece;
    const UOp row = part / pieces, i = build.loop(quern::min(UOp::index(kPiece), of.n - first));
    const UOp at = row * of.n + first + i, value = read(memory[2], at);
    const UOp start = together({low.set({part, i}, 0), high.set({part, i}, in.n)});
    const UOp round = build.loop(rounds);
    const UOps when{start, round};
    const UOp l = low.at(when), h = high.at(when), middle = (l + h) >> 1, open = l < h;
    const UOp base = one_row ? UOp::index(0) : row * in.n;
    // when the search is over the last element is read, to no effect
    const UOp element = read(memory[1], base + quern::min(index_of(middle), UOp::index(in.n - 1)));
    const auto less = [&](const UOp& a, const UOp& b) {
      return a.dtype().is_float() ? (a < b) | (eq(a, a) & ne(b, b)) : a < b;
    };
    const UOp goes_right = open & (right ? ~less(value, element) : less(element, value));
    const UOp searched = ended(together({low.set(when, where(goes_right, middle + 1, l)),
                                         high.set(when, where(open & ~goes_right, middle, h))}),
                               {round});
    return ended(ended(write(memory[0], at, as(low.at({searched}), index)), {i}), {part});
  })[0];
}

}  // namespace quern::detail
