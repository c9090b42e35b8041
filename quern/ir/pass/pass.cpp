#include "quern/ir/pass/pass.h"

#include <fmt/format.h>

#include <cstdio>

#include "quern/base/env.h"

namespace quern {

namespace {

constexpr int64_t kPrintedFrom = 7;
constexpr Need kNeeds[] = {
    Need::workgroups,       Need::cores,      Need::near_memory, Need::cached_stores, Need::address_integers,
    Need::splittable_loops, Need::free_loops, Need::free_choice, Need::float_order};

}  // namespace

std::string_view name(Need need) {
  switch (need) {
    case Need::workgroups: return "workgroups";
    case Need::cores: return "cores";
    case Need::near_memory: return "near memory";
    case Need::cached_stores: return "cached stores";
    case Need::address_integers: return "64-bit addresses";
    case Need::splittable_loops: return "splittable loops";
    case Need::free_loops: return "free loops";
    case Need::free_choice: return "free choice";
    case Need::float_order: return "float order";
  }
  return "";
}

std::string Needs::text() const {
  std::string text;
  for (const Need n : kNeeds)
    if (contains(n)) text += fmt::format("{}{}", text.empty() ? "" : ", ", name(n));
  return text;
}

Needs needs_met(const DeviceSpec& device) {
  Needs met;
  met.set(Need::workgroups, device.has_workgroups());
  met.set(Need::cores, !device.has_workgroups());
  met.set(Need::near_memory, !device.has_workgroups() && device.has_thread_memory());
  met.set(Need::cached_stores, !device.has_workgroups());
  met.set(Need::address_integers, device.adds_addresses_in_64_bits);
  return met;
}

std::string pass_table(std::span<const PassInfo> passes) {
  std::string text =
      "| stage | pass | made of | file | needs | what holds afterwards |\n|---|---|---|---|---|---|\n";
  std::string_view stage;
  for (const PassInfo& p : passes) {
    text += fmt::format("| {} | {} | {} | `{}` | {} | {} |\n", p.stage == stage ? "" : p.stage, p.name,
                        p.is_rules ? "rules" : "code", p.file, p.needs.text(), p.result);
    stage = p.stage;
  }
  return text;
}

namespace detail {

bool watching_passes() {
  return observing() || profile::is_on() || env::SPEC() > 0 || env::DEBUG() >= kPrintedFrom;
}

PassWatch::PassWatch(std::string_view name, std::optional<Level> level, const UOp& graph, bool observed)
    : name_(name), level_(level), graph_(graph), timer_(name) {
  if (observed && observing()) observation_ = std::make_unique<Observation>(name, graph);
}

PassWatch::~PassWatch() = default;

void PassWatch::finish(const UOp& result) {
  if (observation_) observation_->finish(result);
  if (level_) check_boundary(result, *level_, name_);
  if (env::DEBUG() >= kPrintedFrom && !same(result, graph_))
    std::fputs(fmt::format("after {}\n{}\n", name_, result.text()).c_str(), stderr);
}

}  // namespace detail
}  // namespace quern
