// Optimisations as text.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "quern/base/error.h"
#include "quern/codegen/opt/opt.h"

namespace quern {
namespace {

constexpr std::string_view kNames[] = {"UPCAST", "UNROLL", "LOCAL", "GROUP", "GROUPTOP", "PADTO",
                                       "SWAP",   "THREAD", "BLOCK", "PACK",  "NOLOCALS"};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

[[noreturn]] void refuse_text(std::string_view text, std::string_view why) {
  throw Error(fmt::format("\"{}\" is no optimisation: {}; expected something like UPCAST(0, 8)", text, why));
}

int64_t number(std::string_view text, std::string_view all) {
  text = trimmed(text);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    refuse_text(all, fmt::format("\"{}\" is not a number from 0", text));
  return value;
}

}  // namespace

std::string_view name(OptKind kind) { return kNames[static_cast<int>(kind)]; }

std::optional<Need> need_of(OptKind kind) {
  switch (kind) {
    case OptKind::LOCAL:
    case OptKind::GROUP:
    case OptKind::GROUPTOP:
    case OptKind::NOLOCALS: return Need::workgroups;
    case OptKind::THREAD:
    case OptKind::BLOCK:
    case OptKind::PADTO: return Need::cores;
    case OptKind::PACK: return Need::near_memory;
    default: return {};
  }
}

std::string Opt::text() const {
  if (kind == OptKind::NOLOCALS) return std::string(name(kind));
  return fmt::format("{}({}, {})", name(kind), axis, amount);
}

Opt Opt::parse(std::string_view text) {
  text = trimmed(text);
  const size_t open = text.find('('), comma = text.find(',');
  const std::string_view word = trimmed(text.substr(0, open));
  const auto* const found = std::ranges::find(kNames, word);
  if (found == std::end(kNames)) refuse_text(text, fmt::format("there is none called \"{}\"", word));
  Opt opt{static_cast<OptKind>(found - std::begin(kNames)), 0, 0};
  if (opt.kind == OptKind::NOLOCALS && open == std::string_view::npos) return opt;
  if (open == std::string_view::npos || text.back() != ')' || comma == std::string_view::npos || comma < open)
    refuse_text(text, "it needs a loop and an amount");
  opt.axis = number(text.substr(open + 1, comma - open - 1), text);
  opt.amount = number(text.substr(comma + 1, text.size() - comma - 2), text);
  return opt;
}

std::string to_text(const Opts& opts) {
  std::string text;
  for (const Opt& opt : opts) text += (text.empty() ? "" : " ") + opt.text();
  return text;
}

Opts parse_opts(std::string_view text) {
  Opts opts;
  for (text = trimmed(text); !text.empty(); text = trimmed(text)) {
    size_t end = 0;
    while (end < text.size() && text[end] != ' ' && text[end] != '(') end++;
    if (end < text.size() && text[end] == '(') end = std::min(text.size(), text.find(')', end)) + 1;
    end = std::min(end, text.size());
    opts.push_back(Opt::parse(text.substr(0, end)));
    text.remove_prefix(end);
  }
  return opts;
}

}  // namespace quern
