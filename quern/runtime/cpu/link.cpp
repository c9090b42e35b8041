#include "quern/runtime/cpu/link.h"

#include <fmt/format.h>
#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/Support/MemoryBuffer.h>

#include <atomic>
#include <cmath>
#include <cstring>

#include "quern/runtime/cpu/succeed.h"

namespace quern::cpu {
namespace {

class Linker {
 public:
  static Linker& get() {
    static auto* const made = new Linker;  // NOLINT(cppcoreguidelines-owning-memory): code runs to the end
    return *made;
  }

  Linked link(const Code& code) {
    llvm::orc::JITDylib& library = session_.createBareJITDylib(fmt::format("kernel {}", next_++));
    library.addToLinkOrder(functions_);
    Linked result;
    result.memory = std::shared_ptr<void>(&library, [this](void* held) {
      llvm::consumeError(session_.removeJITDylib(*static_cast<llvm::orc::JITDylib*>(held)));
    });
    succeed(objects_.add(library, llvm::MemoryBuffer::getMemBufferCopy(code.object, code.function)));
    const auto symbol = succeed(session_.lookup({&library}, session_.intern(code.function)));
    result.function = symbol.getAddress().toPtr<Function>();
    return result;
  }

 private:
  Linker() {
    add("sin", static_cast<double (*)(double)>(std::sin));
    add("exp2", static_cast<double (*)(double)>(std::exp2));
    add("log2", static_cast<double (*)(double)>(std::log2));
    add("pow", static_cast<double (*)(double, double)>(std::pow));
    add("fma", static_cast<double (*)(double, double, double)>(std::fma));
    add("fmaf", static_cast<float (*)(float, float, float)>(std::fma));
    add("trunc", static_cast<double (*)(double)>(std::trunc));
    add("truncf", static_cast<float (*)(float)>(std::trunc));
    add("memset", &std::memset);
    add("memcpy", &std::memcpy);
    add("memmove", &std::memmove);
  }
  template <class F>
  void add(const char* name, F* function) {
    succeed(functions_.define(llvm::orc::absoluteSymbols(
        {{session_.intern(name),
          {llvm::orc::ExecutorAddr::fromPtr(function), llvm::JITSymbolFlags::Exported}}})));
  }

  llvm::orc::ExecutionSession session_{succeed(llvm::orc::SelfExecutorProcessControl::Create())};
  llvm::orc::ObjectLinkingLayer objects_{session_};
  llvm::orc::JITDylib& functions_ = session_.createBareJITDylib("functions");
  std::atomic<uint64_t> next_{0};
};

}  // namespace

Linked link(const Code& code) { return Linker::get().link(code); }

}  // namespace quern::cpu
