#include "quern/tensor/custom_gradient.h"

#include <mutex>
#include <unordered_map>

namespace quern {
namespace {

struct Registry {
  std::mutex mutex;
  std::unordered_map<UOp, CustomGradient> gradients;
};

Registry& registry() {
  static Registry& kept = *std::make_unique<Registry>().release();  // nodes outlive static objects
  return kept;
}

}  // namespace

void set_custom_gradient(const UOp& sink, CustomGradient gradient) {
  if (!sink || sink.op() != Op::SINK) throw Error("set_custom_gradient: a custom kernel is a SINK");
  const std::lock_guard lock(registry().mutex);
  registry().gradients.insert_or_assign(sink, std::move(gradient));
}

CustomGradient custom_gradient(const UOp& sink) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().gradients.find(sink);
  return found == registry().gradients.end() ? CustomGradient() : found->second;
}

}  // namespace quern
