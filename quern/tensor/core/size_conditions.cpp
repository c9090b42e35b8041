#include "quern/tensor/core/size_conditions.h"

#include "quern/base/error.h"

namespace quern::detail {
namespace {

SizeConditions*& collected_now() {
  thread_local SizeConditions* now = nullptr;
  return now;
}

}  // namespace

SizeConditions::SizeConditions() {
  QUERN_CHECK(collected_now() == nullptr, "conditions are collected twice");
  collected_now() = this;
}
SizeConditions::~SizeConditions() { collected_now() = nullptr; }

void SizeConditions::add(const UOp& number, const std::function<std::string()>& text) {
  const UOp simple = number.simplify();
  if (simple.vmin() < 0 && numbers_.insert(simple).second) all_.push_back({simple, text()});
}

void note_not_negative(const UOp& number, const std::function<std::string()>& text) {
  if (SizeConditions* conditions = collected_now(); conditions != nullptr && number.vmin() < 0)
    conditions->add(number, text);
}

}  // namespace quern::detail
