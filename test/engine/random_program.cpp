// Random programs: every call is valid, values stay small, and what is written has memory however it is run.
#include <algorithm>

#include "test/engine/program.h"
#include "test/engine/random_shapes.h"
#include "test/fuzz.h"

namespace quern::program {
namespace {

class Generator {
 public:
  Generator(std::mt19937_64& random, bool floats, int64_t instructions)
      : random_(random), most_(floats ? 2 : 30) {
    program_.floats = floats;
    for (int64_t i = pick(random_, 1, 3); i > 0; i--) add_input();
    for (int64_t tries = 0; std::ssize(program_.list) < instructions && tries < 10 * instructions; tries++)
      step();
    const int64_t n = std::ssize(program_.list);
    for (int64_t i = pick(random_, 1, 6); i > 0; i--)
      program_.outputs.push_back(
          static_cast<size_t>(one_in(random_, 2) ? upto(n - 1) : n - 1 - upto(std::min<int64_t>(n - 1, 4))));
    program_.keep_all = one_in(random_, 2);
    if (!program_.keep_all)  // memory is looked at whatever happened to it
      for (size_t i = 0; i < program_.list.size(); i++)
        if (program_.list[i].call == Call::input || program_.list[i].call == Call::clone)
          program_.outputs.push_back(i);
    std::ranges::sort(program_.outputs);
    const auto [first, last] = std::ranges::unique(program_.outputs);
    program_.outputs.erase(first, last);
  }
  Program program_;

 private:
  int64_t upto(int64_t n) { return pick(random_, 0, n); }
  template <class T>
  const T& one_of(const std::vector<T>& list) {
    return list[static_cast<size_t>(upto(std::ssize(list) - 1))];
  }
  const Facts& facts(size_t i) const { return made_[i]; }
  int64_t axes(size_t i) const { return std::ssize(facts(i).shape); }

  size_t add(Instruction in) {
    program_.list.push_back(std::move(in));
    try {
      made_.add(program_.list.back());
    } catch (const std::exception& e) {
      program_.outputs = {0};
      throw Error(std::string("a call throws: ") + e.what() + "\n" + program_.source());
    }
    const size_t here = made_.size() - 1;
    if (program_.list.back().writes()) return here;
    if (facts(here).error > 1e-4 || facts(here).elements() > 400) {
      made_.undo();
      program_.list.pop_back();
      return any();
    }
    if (facts(here).most <= most_) {
      usable_.push_back(here);
      return here;
    }
    return add({.call = Call::clamp, .from = {here}, .number = program_.floats ? 1.5 : 3});
  }

  size_t any() {
    // Recent ones are more likely, so that programs get deep.
    const int64_t n = std::ssize(usable_);
    return usable_[static_cast<size_t>(one_in(random_, 2) ? n - 1 - upto(std::min<int64_t>(n - 1, 4))
                                                          : upto(n - 1))];
  }
  template <class Condition>
  std::optional<size_t> any_that(Condition condition) {
    std::vector<size_t> found;
    for (const size_t i : usable_)
      if (condition(facts(i))) found.push_back(i);
    if (found.empty()) return std::nullopt;
    return one_of(found);
  }
  size_t number_valued() {  // no bools: they do not add up
    size_t x = any();
    return facts(x).dtype.is_bool() ? add({.call = Call::cast, .from = {x}, .dtype = a_dtype()}) : x;
  }
  DType a_dtype() {
    if (one_in(random_, 2)) return dtypes::float32;
    if (program_.floats || !one_in(random_, 4)) return dtypes::int32;
    return one_in(random_, 2) ? dtypes::int8 : dtypes::float16;
  }
  double small(DType dtype) {
    if (program_.floats && dtype.is_float()) return static_cast<double>(pick(random_, -6, 6)) / 4;
    return static_cast<double>(pick(random_, -2, 2));
  }

  void add_input() {
    Instruction in{.call = Call::input,
                   .dtype = program_.floats && !one_in(random_, 4) ? dtypes::float32 : a_dtype()};
    int64_t n = 1;
    for (int64_t k = upto(3); k > 0; k--) in.numbers.push_back(pick(random_, 1, one_in(random_, 4) ? 6 : 3));
    for (const int64_t s : in.numbers) n *= s;
    for (int64_t i = 0; i < n; i++)
      in.data.push_back(
          program_.floats && in.dtype.is_float()
              ? static_cast<double>(static_cast<float>(static_cast<double>(pick(random_, -999, 999)) / 777))
              : small(in.dtype));
    add(in);
  }

  void step() {
    switch (upto(23)) {
      case 0:
      case 1:
      case 2:
      case 3: return binary();
      case 4: return unary();
      case 5: return select();
      case 6: return change_dtype();
      case 7:
      case 8: return reshape(any());
      case 9: return permute(any());
      case 10: return flip(any());
      case 11: return pad();
      case 12: return slice();
      case 13: return expand(any());
      case 14:
      case 15: return reduce();
      case 16: return scan();
      case 17: return matmul();
      case 18: return cat();
      case 19: return index();
      case 20:
        (void)add({.call = one_in(random_, 2) ? Call::contiguous : Call::clone, .from = {any()}});
        return;
      case 21:
        if (one_in(random_, 3)) return add_input();
        (void)add({.call = Call::full,
                   .numbers = facts(any()).shape,
                   .number = small(dtypes::int32),
                   .dtype = a_dtype()});
        return;
      default: return write();
    }
  }

  // A second operand, or none: a number has to do.
  std::vector<size_t> with_second(size_t x) {
    const auto y = any_that([&](const Facts& f) {
      return !f.dtype.is_bool() &&
             (broadcasts(f.shape, facts(x).shape) || broadcasts(facts(x).shape, f.shape));
    });
    if (!y || one_in(random_, 5)) return {x};
    return {x, *y};
  }

  void binary() {
    static const std::vector<std::string> names = {"add",      "sub",         "mul", "maximum", "minimum",
                                                   "lt",       "ge",          "eq",  "ne",      "mod",
                                                   "floordiv", "bitwise_xor", "add", "mul"};
    Instruction in{.call = Call::binary, .name = one_of(names), .from = with_second(number_valued())};
    in.number = small(facts(in.from[0]).dtype);
    bool floats = false;
    for (const size_t i : in.from) floats = floats || facts(i).dtype.is_float();
    if (in.name == "bitwise_xor" && floats) in.name = "sub";
    if (in.name == "mod" || in.name == "floordiv") {
      in.from.resize(1);
      if (in.number == 0) in.number = 3;
      if (program_.floats && floats) in.name = "mul";
    }
    // A small error turns a comparison around.
    if (program_.floats && floats && (in.name.size() == 2)) in.name = "maximum";
    (void)add(in);
  }
  void unary() {
    static const std::vector<std::string> exact = {"neg", "abs", "square", "relu", "sign"},
                                          smooth = {"neg", "abs", "square", "relu", "sigmoid", "sin", "tanh"};
    const size_t x = any();
    if (facts(x).dtype.is_bool()) return (void)add({.call = Call::unary, .name = "logical_not", .from = {x}});
    const bool floats = program_.floats && facts(x).dtype.is_float();
    (void)add({.call = Call::unary, .name = one_of(floats ? smooth : exact), .from = {x}});
  }
  void select() {
    auto condition = any_that([](const Facts& f) { return f.dtype.is_bool(); });
    if (!condition) {
      const auto x = any_that([&](const Facts& f) { return !f.dtype.is_float() || !program_.floats; });
      if (!x) return;
      condition = add({.call = Call::binary, .name = "lt", .from = {*x}, .number = small(dtypes::int32)});
    }
    const Ints shape = facts(*condition).shape;
    auto near = [&](const Facts& f) { return !f.dtype.is_bool() && (broadcasts(f.shape, shape)); };
    const auto yes = any_that(near), no = any_that(near);
    if (facts(*condition).dtype.is_bool() && yes && no)
      (void)add({.call = Call::where, .from = {*condition, *yes, *no}});
  }
  void change_dtype() {
    const size_t x = any();
    const DType to = program_.floats && facts(x).dtype.is_float() ? dtypes::float32
                     : one_in(random_, 4) && !program_.floats     ? dtypes::bool_
                                                                  : a_dtype();
    (void)add({.call = Call::cast, .from = {x}, .dtype = to});
  }
  void reshape(size_t x) {
    (void)add({.call = Call::reshape, .from = {x}, .numbers = random_sizes(random_, facts(x).elements())});
  }
  void permute(size_t x) {
    (void)add({.call = Call::permute, .from = {x}, .numbers = random_order(random_, facts(x).shape.size())});
  }
  Ints some_axes(size_t x) { return random_axes(random_, facts(x).shape.size()); }
  void flip(size_t x) { (void)add({.call = Call::flip, .from = {x}, .numbers = some_axes(x)}); }
  void pad() {
    const size_t x = number_valued();
    Instruction in{.call = Call::pad, .from = {x}};
    for (int64_t i = 2 * axes(x); i > 0; i--) in.numbers.push_back(one_in(random_, 2) ? upto(2) : 0);
    if (one_in(random_, 3)) in.number = static_cast<double>(pick(random_, -2, 2));
    (void)add(in);
  }
  void expand(size_t x) {
    Ints shape = facts(x).shape;
    for (int64_t& s : shape)
      if (s == 1) s = pick(random_, 1, 4);
    if (shape.size() < 3 && one_in(random_, 2)) shape.insert(shape.begin(), pick(random_, 1, 3));
    (void)add({.call = Call::expand, .from = {x}, .numbers = shape});
  }
  void slice() {
    const size_t x = any();
    (void)add({.call = Call::slice, .from = {x}, .numbers = random_slices(random_, facts(x).shape)});
  }
  void reduce() {
    const size_t x = any();
    static const std::vector<std::string> ints = {"sum", "sum", "max", "min", "prod"}, bools = {"any", "all"},
                                          floats = {"sum", "max", "min", "mean", "prod"};
    const bool real = program_.floats && facts(x).dtype.is_float();
    Instruction in{.call = Call::reduce,
                   .name = one_of(facts(x).dtype.is_bool() ? bools
                                  : real                   ? floats
                                                           : ints),
                   .from = {x},
                   .numbers = some_axes(x),
                   .keepdim = one_in(random_, 2)};
    int64_t n = 1;
    for (const int64_t a : in.numbers) n *= facts(x).shape[static_cast<size_t>(a)];
    if (in.name == "prod") {  // of few and small ones
      if (n > 4)
        in.name = "sum";
      else if (facts(x).most > 3)
        in.from[0] = add({.call = Call::clamp, .from = {x}, .number = real ? 1.5 : 3});
    }
    const size_t r = add(in);
    if (in.keepdim && one_in(random_, 2) && broadcasts(facts(r).shape, facts(x).shape) && axes(r) == axes(x))
      (void)add({.call = Call::expand, .from = {r}, .numbers = facts(x).shape});
  }
  void scan() {
    const size_t x = number_valued();
    if (axes(x) > 0)
      (void)add({.call = Call::scan, .name = "cumsum", .from = {x}, .numbers = {upto(axes(x) - 1)}});
  }
  void matmul() {
    const size_t x = number_valued();
    if (axes(x) == 0) return;
    const auto y = any_that([&](const Facts& f) {
      const size_t n = f.shape.size();
      return !f.dtype.is_bool() && (n == 1 || n == 2) && f.shape[n == 1 ? 0 : n - 2] == facts(x).shape.back();
    });
    if (y) (void)add({.call = Call::matmul, .from = {x, *y}});
  }
  void cat() {
    const size_t x = number_valued();
    if (axes(x) == 0) return;
    const int64_t axis = upto(axes(x) - 1);
    Instruction in{.call = Call::cat, .from = {x}, .numbers = {axis}};
    for (int64_t i = pick(random_, 1, 2); i > 0; i--) {
      const auto y = any_that([&](const Facts& f) {
        Ints shape = f.shape;
        if (f.dtype != facts(x).dtype || std::ssize(shape) != axes(x)) return false;
        shape[static_cast<size_t>(axis)] = facts(x).shape[static_cast<size_t>(axis)];
        return shape == facts(x).shape;
      });
      if (y) in.from.push_back(*y);
    }
    (void)add(in);
  }
  void index() {
    const auto i = any_that([](const Facts& f) { return f.dtype == dtypes::int32 && f.shape.size() < 3; });
    const size_t x = number_valued();
    if (i && axes(x) > 0 && axes(x) + axes(*i) < 5) (void)add({.call = Call::pick, .from = {x, *i}});
  }

  // Into what is there, or a view of it: whether it has memory by then makes no difference.
  void write() {
    std::vector<size_t> found;
    for (const size_t i : usable_)
      if (!facts(i).dtype.is_bool() && facts(i).writable && !made_.is_unsure(i)) found.push_back(i);
    if (found.empty()) return;
    const size_t target = one_of(found);
    Instruction in{.call = Call::assign, .from = {target}, .number = small(facts(target).dtype)};
    Ints shape = facts(target).shape;
    if (one_in(random_, 2)) {
      in.call = Call::set;
      in.numbers = random_slices(random_, shape);
      const size_t part = add({.call = Call::slice, .from = {target}, .numbers = in.numbers});
      shape = facts(part).shape;
      if (one_in(random_, 2)) made_.undo(), program_.list.pop_back(), usable_.pop_back();
    }
    auto value = any_that([&](const Facts& f) {
      return !f.dtype.is_bool() && broadcasts(f.shape, shape) &&
             (!program_.floats || f.dtype == facts(target).dtype);
    });
    if (value && !one_in(random_, 6)) {
      if (facts(*value).dtype != facts(target).dtype)
        value = add({.call = Call::cast, .from = {*value}, .dtype = facts(target).dtype});
      if (facts(*value).dtype == facts(target).dtype) in.from.push_back(*value);
    }
    (void)add(in);
  }

  std::mt19937_64& random_;
  const double most_;
  Building made_;
  std::vector<size_t> usable_;  // instructions that make values
};

}  // namespace

Program random_program(std::mt19937_64& random, bool floats, int64_t instructions) {
  return Generator(random, floats, instructions).program_;
}

}  // namespace quern::program
