#include "quern/runtime/batch.h"

namespace quern {
namespace {

class EachByItself : public Batch {
 public:
  explicit EachByItself(std::vector<Launch> launches) : launches_(std::move(launches)) {
    for (const Launch& launch : launches_) {
      VariableValues& variables = variables_.emplace_back();
      for (const auto& [name, value] : launch.variables) variables.emplace(name, 0);
    }
  }

  void run(std::span<void* const> memory, std::span<const int64_t> values, bool /*apart*/) override {
    for (size_t i = 0; i < launches_.size(); i++) {
      const Launch& launch = launches_[i];
      arguments_.clear();
      for (const MemoryPart& place : launch.arguments) arguments_.push_back({place.in(memory), place.bytes});
      for (const auto& [name, value] : launch.variables) variables_[i].find(name)->second = values[value];
      launch.program->run(arguments_, variables_[i]);
    }
  }

 private:
  std::vector<Launch> launches_;
  std::vector<VariableValues> variables_;
  std::vector<Argument> arguments_;
};

}  // namespace

std::unique_ptr<Batch> run_each(std::vector<Launch> launches) {
  return std::make_unique<EachByItself>(std::move(launches));
}

std::unique_ptr<Batch> Device::prepare(std::vector<Launch> launches) { return run_each(std::move(launches)); }

}  // namespace quern
