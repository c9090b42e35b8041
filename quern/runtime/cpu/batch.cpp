#include "quern/runtime/cpu/batch.h"

#include <algorithm>

#include "quern/runtime/cpu/program.h"

namespace quern::cpu {
namespace {

class CpuBatch : public Batch {
 public:
  explicit CpuBatch(std::vector<Launch> launches) {
    size_t pointers = 0, values = 0;
    for (const Launch& launch : launches) {
      auto program = std::dynamic_pointer_cast<const CpuProgram>(launch.program);
      QUERN_CHECK(program, "a program of another device in a batch of the CPU");
      const CpuProgram::Callable form = program->callable(overlap_within(launch.arguments));
      calls_.push_back({form, pointers, values});
      for (const Code::Param& p : form.code->params) {
        const auto slot = static_cast<size_t>(p.slot);
        QUERN_CHECK(slot < launch.arguments.size(), "a kernel without an argument for each PARAM");
        QUERN_CHECK(p.elements <= launch.arguments[slot].bytes / p.element_bytes,
                    "an argument that is too small for its PARAM");
        addresses_.push_back({pointers + slot, launch.arguments[slot]});
      }
      for (const Code::Variable& v : form.code->variables) {
        const auto given = std::ranges::find(launch.variables, v.name, [](const auto& x) { return x.first; });
        QUERN_CHECK(given != launch.variables.end(), "a kernel without a value for a variable");
        numbers_.push_back({values++, given->second});
      }
      pointers += launch.arguments.size();
      programs_.push_back(std::move(program));
    }
    pointers_.resize(pointers);
    values_.resize(values);
    checked_ = run_each(std::move(launches));
  }

  void run(std::span<void* const> memory, std::span<const int64_t> values, bool apart) override {
    if (!apart) {
      checked_->run(memory, values, apart);
      return;
    }
    for (const auto& [to, place] : addresses_) pointers_[to] = place.in(memory);
    for (const auto& [to, from] : numbers_) values_[to] = values[from];
    for (const Call& call : calls_)
      call.form.run(pointers_.data() + call.pointers, values_.data() + call.values);
  }

 private:
  // Of memory that is one piece; other pieces are apart, or checked_ runs.
  static bool overlap_within(const std::vector<MemoryPart>& places) {
    for (size_t i = 0; i < places.size(); i++)
      for (size_t k = 0; k < i; k++) {
        const MemoryPart &a = places[i], &b = places[k];
        if (a.memory == b.memory && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes)
          return true;
      }
    return false;
  }

  struct Call {
    CpuProgram::Callable form;
    size_t pointers, values;  // where its own begin
  };
  struct Address {
    size_t to;
    MemoryPart place;
  };
  struct Number {
    size_t to, from;
  };
  std::vector<Call> calls_;
  std::vector<Address> addresses_;
  std::vector<Number> numbers_;
  std::vector<void*> pointers_;
  std::vector<int64_t> values_;
  std::vector<std::shared_ptr<const CpuProgram>> programs_;
  std::unique_ptr<Batch> checked_;
};

}  // namespace

std::unique_ptr<Batch> prepare(std::vector<Launch> launches) {
  return std::make_unique<CpuBatch>(std::move(launches));
}

}  // namespace quern::cpu
