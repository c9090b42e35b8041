// Whether a program does the same when it is run lazily and eagerly, and a smaller one that does not either.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "test/engine/program.h"

namespace quern::program {
namespace {

constexpr double kExact = 0x1p20;  // sums of integers up to this are exact in float32, whatever their order

// The kind of an error: what it says up to the first number or bracket.
Failure thrown(const std::string& when, const std::exception& e) {
  const std::string text = e.what();
  return {when + text.substr(0, std::min<size_t>(text.find_first_of("0123456789([{\n"), 40)), when + text};
}

std::string difference(size_t at, size_t element, double lazy, double eager, const std::string& more) {
  return fmt::format("t{}: element {} is {} if the program is run lazily, {} if eagerly{}", at, element, lazy,
                     eager, more);
}

}  // namespace

std::optional<Failure> check(const Program& program) {
  Run lazy, eager, exact;
  std::vector<Facts> facts;
  try {
    facts = facts_of(program);
  } catch (const std::exception& e) {
    return thrown("building it: ", e);
  }
  try {
    eager = run(program, How::eagerly);
    if (program.floats) exact = run(program, How::eagerly_in_float64);
  } catch (const std::exception& e) {
    return thrown("eagerly: ", e);
  }
  try {
    lazy = run(program, How::lazily);
  } catch (const std::exception& e) {
    return thrown("lazily: ", e);
  }
  for (size_t i = 0; i < program.list.size(); i++) {
    const auto &l = lazy.values[i], &e = eager.values[i];
    if (l.size() != e.size())
      return Failure{"sizes", fmt::format("t{}: {} and {} elements", i, l.size(), e.size())};
    const bool close = program.floats && facts[i].dtype.is_float();
    const size_t bytes = e.empty() ? 0 : eager.bytes[i].size() / e.size();
    for (size_t k = 0; k < l.size(); k++) {
      if (close) {
        const double x = exact.values[i][k], most = facts[i].error;
        if (!(std::abs(l[k] - x) <= most))
          return Failure{"far",
                         difference(i, k, l[k], e[k],
                                    fmt::format(", {} in float64, which may differ by {:.2g}", x, most))};
        if (!(std::abs(e[k] - x) <= most))
          return Failure{"far eagerly",
                         difference(i, k, l[k], e[k],
                                    fmt::format(", {} in float64, which may differ by {:.2g}", x, most))};
        continue;
      }
      if (!(std::abs(e[k]) <= kExact))
        return Failure{"inexact", fmt::format("t{}: {} is too large", i, e[k])};
      if (!std::equal(lazy.bytes[i].begin() + static_cast<int64_t>(k * bytes),
                      lazy.bytes[i].begin() + static_cast<int64_t>((k + 1) * bytes),
                      eager.bytes[i].begin() + static_cast<int64_t>(k * bytes)))
        return Failure{"differs", difference(i, k, l[k], e[k], "")};
    }
  }
  return std::nullopt;
}

namespace {

class Shrinker {
 public:
  Shrinker(Program program, std::string kind) : best_(std::move(program)), kind_(std::move(kind)) {}

  Program run() {
    for (bool better = true; better && runs_ > 0;) {  // all of them, each time
      better = fewer_outputs();
      better |= fewer_instructions();
      better |= smaller_shapes();
      better |= simpler_numbers();
    }
    return best_;
  }

 private:
  bool attempt(const Program& candidate) {
    if (runs_-- <= 0) return false;
    const auto failure = check(candidate);
    if (!failure || failure->kind != kind_) return false;
    best_ = candidate;
    return true;
  }

  static void remove(Program& p, size_t i) {
    p.list.erase(p.list.begin() + static_cast<int64_t>(i));
    auto moved = [&](size_t& k) { k -= k > i ? 1 : 0; };
    for (Instruction& in : p.list) std::ranges::for_each(in.from, moved);
    std::erase(p.outputs, i);
    std::ranges::for_each(p.outputs, moved);
  }
  static bool is_used(const Program& p, size_t i) {
    return std::ranges::any_of(p.list,
                               [&](const Instruction& in) { return std::ranges::count(in.from, i) > 0; });
  }

  bool fewer_outputs() {
    bool better = false;
    if (best_.keep_all) {
      Program p = best_;
      p.keep_all = false;
      better |= attempt(p);
    }
    for (size_t i = best_.outputs.size(); i-- > 0 && best_.outputs.size() > 1;) {
      Program p = best_;
      p.outputs.erase(p.outputs.begin() + static_cast<int64_t>(i));
      better |= attempt(p);
    }
    return better;
  }

  bool fewer_instructions() {
    bool better = false;
    for (size_t i = best_.list.size(); i-- > 0;) {
      if (i >= best_.list.size()) continue;
      if (!is_used(best_, i)) {
        Program p = best_;
        remove(p, i);
        if (!p.outputs.empty() && attempt(p)) {
          better = true;
          continue;
        }
      }
      if (best_.list[i].writes()) continue;
      // One of its sources may stand for it, or an input.
      bool done = false;
      for (size_t k = 0; k < best_.list[i].from.size() && !done; k++) {
        Program p = best_;
        const size_t source = p.list[i].from[k];
        auto instead = [&](size_t& v) { v = v == i ? source : v; };
        for (Instruction& in : p.list) std::ranges::for_each(in.from, instead);
        std::ranges::for_each(p.outputs, instead);
        std::ranges::sort(p.outputs);
        p.outputs.erase(std::ranges::unique(p.outputs).begin(), p.outputs.end());
        remove(p, i);
        done = attempt(p);
      }
      better |= done;
      if (done || best_.list[i].call == Call::input) continue;
      try {
        const Facts facts = facts_of(best_).at(i);
        Program p = best_;
        p.list[i] = {.call = Call::input, .numbers = facts.shape, .dtype = facts.dtype};
        for (int64_t n = 0; n < facts.elements(); n++)
          p.list[i].data.push_back(facts.dtype.is_bool() ? static_cast<double>(n % 2)
                                                         : static_cast<double>(n % 5) - 2);
        better |= attempt(p);
      } catch (const std::exception&) {  // it does not even get there
      }
    }
    return better;
  }

  // Another size for all axes of one size.
  bool smaller_shapes() {
    bool better = false;
    for (int64_t from = 6; from > 1; from--)
      for (int64_t to = 1; to < from; to++) {
        Program p = best_;
        bool changed = false;
        for (Instruction& in : p.list) {
          if (in.call != Call::input && in.call != Call::full && in.call != Call::reshape &&
              in.call != Call::expand)
            continue;
          for (int64_t& s : in.numbers)
            if (s == from) s = to, changed = true;
          if (in.call != Call::input) continue;
          int64_t n = 1;
          for (const int64_t s : in.numbers) n *= s;
          in.data.resize(static_cast<size_t>(n));
        }
        if (changed && attempt(p)) {
          better = true;
          break;
        }
      }
    return better;
  }

  bool simpler_numbers() {
    bool better = false;
    for (size_t i = 0; i < best_.list.size(); i++) {
      const auto& data = best_.list[i].data;
      if (std::ranges::any_of(data, [](double v) { return v != 0; })) {
        Program p = best_;
        std::ranges::fill(p.list[i].data, 0.0);
        if (attempt(p)) {
          better = true;
          continue;
        }
      }
      for (size_t k = 0; k < best_.list[i].data.size(); k++) {
        if (best_.list[i].data[k] == 0 || best_.list[i].data[k] == 1) continue;
        Program p = best_;
        for (const double simple : {0.0, 1.0}) {
          p.list[i].data[k] = simple;
          if (attempt(p)) {
            better = true;
            break;
          }
        }
      }
    }
    return better;
  }

  Program best_;
  std::string kind_;
  int runs_ = 1500;
};

}  // namespace

Program shrink(Program program, const Failure& failure) {
  return Shrinker(std::move(program), failure.kind).run();
}

}  // namespace quern::program
