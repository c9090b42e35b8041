#include "quern/nn/state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "quern/base/error.h"

namespace quern::nn::detail {
namespace {

// The first few of many names.
std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kShown = 5;
  const auto shown =
      std::vector(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kShown)));
  return fmt::format("{}{}", fmt::join(shown, ", "),
                     names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : "");
}

std::string sizes(const Tensor& t) {
  std::vector<std::string> parts;
  for (const Dim& d : t.shape()) parts.push_back(d.is_symbolic() ? "?" : std::to_string(d.value()));
  return fmt::format("({})", fmt::join(parts, ", "));
}

}  // namespace

std::string joined(const std::string& prefix, std::string_view name) {
  return prefix.empty() ? std::string(name) : fmt::format("{}.{}", prefix, name);
}

std::string_view next_name(std::string_view& names) {
  const size_t comma = std::min(names.find(','), names.size());
  const std::string_view name = names.substr(0, comma);
  names.remove_prefix(std::min(comma + 1, names.size()));
  while (names.starts_with(' ')) names.remove_prefix(1);
  return name;
}

std::vector<Tensor> distinct(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> result;
  std::set<const void*> seen;
  for (const Tensor& t : tensors)
    if (seen.insert(t.state().get()).second) result.push_back(t);
  return result;
}

void load(const StateDict& into, const StateDict& from, bool strict) {
  std::vector<std::string> missing, unused, different;
  for (const auto& [name, target] : into) {
    const auto found = from.find(name);
    if (found == from.end())
      missing.push_back(name);
    else if (sizes(found->second) != sizes(target))
      different.push_back(
          fmt::format("{} has shape {}, given is {}", name, sizes(target), sizes(found->second)));
  }
  for (const auto& [name, value] : from)
    if (!into.contains(name)) unused.push_back(name);
  std::vector<std::string> wrong;
  if (!different.empty()) wrong.push_back(listed(different));
  if (strict && !missing.empty()) wrong.push_back("missing: " + listed(missing));
  if (strict && !unused.empty()) wrong.push_back("not of this model: " + listed(unused));
  if (!wrong.empty()) throw Error(fmt::format("load_state_dict: {}", fmt::join(wrong, "; ")));
  std::vector<Tensor> loaded;
  for (const auto& [name, target] : into)
    if (const auto found = from.find(name); found != from.end()) {
      const std::string device = target.device();
      const Tensor value = device.empty() ? found->second : found->second.to(device);
      loaded.push_back(target.assign(value.cast(target.dtype())));
    }
  Tensor::realize_all(loaded);
}

}  // namespace quern::nn::detail
