// rearrange("b (h w) c -> b c h w", {{"h", 4}}).
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "quern/tensor/core/support.h"

namespace quern {
namespace {

// Names of axes. "..." stands for several, "(...)" for several that become one with what is around it, "1"
// for an axis of size 1.
using Group = std::vector<std::string>;

bool is_ellipsis(const std::string& name) { return name == "..." || name == "(...)"; }

[[noreturn]] void refuse_rearrange(const std::string& formula, const std::string& why) {
  throw ValueError(fmt::format("rearrange \"{}\": {}", formula, why));
}

std::vector<Group> parsed(const std::string& formula, const std::string& side) {
  std::vector<Group> groups;
  bool inside = false;
  for (size_t i = 0; i < side.size();) {
    const char c = side[i];
    if (c == ' ') {
      i++;
    } else if (c == '(') {
      if (inside) refuse_rearrange(formula, "parentheses within parentheses");
      inside = true, i++;
      groups.emplace_back();
    } else if (c == ')') {
      if (!inside) refuse_rearrange(formula, "a ) without its (");
      inside = false, i++;
    } else {
      size_t end = i;
      if (side.compare(i, 3, "...") == 0) {
        end = i + 3;
      } else {
        while (end < side.size() &&
               ((std::isalnum(static_cast<unsigned char>(side[end])) != 0) || side[end] == '_'))
          end++;
        if (end == i) refuse_rearrange(formula, fmt::format("'{}' is not part of a name", c));
      }
      if (!inside) groups.emplace_back();
      const std::string name = side.substr(i, end - i);
      groups.back().push_back(inside && name == "..." ? "(...)" : name);
      i = end;
    }
  }
  if (inside) refuse_rearrange(formula, "a ( without its )");
  return groups;
}

// Each name once; the ellipsis becomes names of its own for as many axes as are left.
std::vector<Group> spelled_out(const std::string& formula, const std::vector<Group>& groups, int64_t hidden,
                               bool left) {
  std::vector<Group> result;
  std::vector<std::string> seen;
  int ones = 0;
  for (const Group& g : groups) {
    Group names;
    for (const std::string& name : g) {
      if (is_ellipsis(name)) {
        if (left && name == "(...)") refuse_rearrange(formula, "an ellipsis within parentheses on the left");
        for (int64_t i = 0; i < hidden; i++) names.push_back(fmt::format("...{}", i));
      } else if (name == "1") {
        names.push_back(fmt::format("1{}{}", left ? "l" : "r", ones++));
      } else {
        if (std::isdigit(static_cast<unsigned char>(name[0])) != 0)
          refuse_rearrange(formula, fmt::format("'{}' is not a name", name));
        names.push_back(name);
      }
    }
    for (const std::string& name : names) {
      if (std::ranges::count(seen, name))
        refuse_rearrange(formula, fmt::format("'{}' occurs twice on one side", name));
      seen.push_back(name);
    }
    if (g.size() == 1 && g[0] == "...")
      for (const std::string& name : names) result.push_back({name});
    else
      result.push_back(names);
  }
  return result;
}

bool is_one(const std::string& name) { return name[0] == '1'; }

}  // namespace

Tensor Tensor::rearrange(const std::string& formula,
                         const std::vector<std::pair<std::string, int64_t>>& sizes) const {
  const size_t arrow = formula.find("->");
  if (arrow == std::string::npos || formula.find("->", arrow + 2) != std::string::npos)
    refuse_rearrange(formula, "it must have one \"->\"");
  std::vector<Group> left = parsed(formula, formula.substr(0, arrow)),
                     right = parsed(formula, formula.substr(arrow + 2));
  auto ellipses = [](const std::vector<Group>& groups) {
    int64_t n = 0;
    for (const Group& g : groups) n += std::ranges::count_if(g, is_ellipsis);
    return n;
  };
  const int64_t dots = ellipses(left);
  if (dots > 1 || ellipses(right) != dots)
    refuse_rearrange(formula, "both sides need the same ellipsis, at most once");
  const int64_t hidden = ndim() - (std::ssize(left) - dots);
  if (dots == 0 ? hidden != 0 : hidden < 0)
    refuse_rearrange(
        formula, fmt::format("the left side has {} axes, the tensor {}", left.size(), shape_text(shape())));
  left = spelled_out(formula, left, hidden, true), right = spelled_out(formula, right, hidden, false);

  std::map<std::string, Dim> known;
  for (const auto& [name, size] : sizes) {
    if (size < 1) refuse_rearrange(formula, fmt::format("the size of {} is {}", name, size));
    known.insert_or_assign(name, Dim(size));
  }
  // The left side: one axis of the tensor is split into those of its group, of which one may be unknown.
  Shape split;
  std::vector<std::string> names;
  for (size_t i = 0; i < left.size(); i++) {
    const Dim whole = this->shape()[i];
    Dim rest = 1;
    std::string open;
    for (const std::string& name : left[i]) {
      if (is_one(name)) known.insert_or_assign(name, Dim(1));
      if (const auto found = known.find(name); found != known.end())
        rest = detail::product(rest, found->second);
      else if (open.empty())
        open = name;
      else
        refuse_rearrange(formula, fmt::format("the sizes of both {} and {} are unknown", open, name));
    }
    if (!open.empty()) {
      if (!whole.is_symbolic() && whole.value() % rest.value() != 0)
        refuse_rearrange(
            formula, fmt::format("axis {} of size {} cannot be divided by {}", i, whole.text(), rest.text()));
      known.insert_or_assign(open, Dim(whole.uop() / rest.uop()));
    } else if (!detail::same_dims(rest, whole)) {
      refuse_rearrange(formula, fmt::format("axis {} has size {}, not {}", i, whole.text(), rest.text()));
    }
    for (const std::string& name : left[i]) {
      names.push_back(name);
      split.push_back(known.at(name));
    }
  }
  for (const auto& [name, size] : sizes)
    if (!std::ranges::count(names, name))
      refuse_rearrange(formula, fmt::format("a size is given for {}, which is not on the left", name));

  Ints order;
  Shape joined;
  for (const Group& g : right) {
    Dim size = 1;
    for (const std::string& name : g) {
      if (is_one(name)) continue;
      const auto at = std::ranges::find(names, name);
      if (at == names.end()) refuse_rearrange(formula, fmt::format("{} is on the right only", name));
      order.push_back(at - names.begin());
      size = detail::product(size, known.at(name));
    }
    joined.push_back(size);
  }
  for (size_t i = 0; i < names.size(); i++)
    if (is_one(names[i]))
      order.push_back(static_cast<int64_t>(i));
    else if (!std::ranges::count(order, static_cast<int64_t>(i)))
      refuse_rearrange(formula, fmt::format("{} is on the left only", names[i]));
  return reshape(split).permute(order).reshape(joined);
}

}  // namespace quern
