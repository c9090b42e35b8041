#include "quern/runtime/cpu/compile.h"

#include <fmt/format.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>

#include <atomic>
#include <cmath>
#include <cstring>

#include "quern/ir/error.h"
#include "quern/render/llvm.h"

namespace quern::cpu {
namespace {

// What LLVM refuses is a mistake of ours.
void succeed(llvm::Error error) {
  if (error) check_failed("LLVM succeeds", __FILE__, __LINE__, llvm::toString(std::move(error)));
}
template <class T>
T succeed(llvm::Expected<T> result) {
  if (!result) succeed(result.takeError());
  return std::move(*result);
}

// ---- the host

llvm::orc::JITTargetMachineBuilder detect() {
  static const bool initialised = [] {
    return !llvm::InitializeNativeTarget() && !llvm::InitializeNativeTargetAsmPrinter();
  }();
  QUERN_CHECK(initialised, "LLVM has no code generator for this machine");
  auto builder = succeed(llvm::orc::JITTargetMachineBuilder::detectHost());
  builder.setCodeGenOptLevel(llvm::CodeGenOptLevel::Default);
  builder.getOptions().AllowFPOpFusion = llvm::FPOpFusion::Strict;  // rounded as written
  return builder;
}

// A TargetMachine belongs to one thread.
llvm::TargetMachine& machine() {
  thread_local const std::unique_ptr<llvm::TargetMachine> made = succeed(detect().createTargetMachine());
  return *made;
}

// ---- IR to an object file

// Of the passes of -O2, those that do something for a nest of loops over arrays: registers become values,
// what does not change goes out of loops, innermost loops become vectors. All of -O2 takes twice to four
// times as long and makes the same code of these.
constexpr const char* kPasses =
    "function(sroa<modify-cfg>,early-cse<memssa>,instcombine<max-iterations=1;no-verify-fixpoint>,"
    "simplifycfg,"
    "loop-mssa(licm<allowspeculation>),loop(indvars),"
    "loop-vectorize<no-interleave-forced-only;no-vectorize-forced-only>,"
    "instcombine<max-iterations=1;no-verify-fixpoint>,simplifycfg,loop-mssa(licm<allowspeculation>))";

void optimise(llvm::Module& module, llvm::TargetMachine& target) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager calls;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder passes(&target);
  passes.registerModuleAnalyses(modules);
  passes.registerCGSCCAnalyses(calls);
  passes.registerFunctionAnalyses(functions);
  passes.registerLoopAnalyses(loops);
  passes.crossRegisterProxies(loops, functions, calls, modules);
  llvm::ModulePassManager pipeline;
  succeed(passes.parsePassPipeline(pipeline, kPasses));
  pipeline.run(module, modules);
}

LlvmProgram rendered(const LinearProgram& program, llvm::LLVMContext& context, bool no_alias) {
  LlvmProgram result = render_llvm(program, context, {.no_alias = no_alias});
  result.module->setDataLayout(machine().createDataLayout());
  result.module->setTargetTriple(machine().getTargetTriple().str());
  return result;
}

llvm::SmallVector<char, 0> emit(llvm::Module& module, llvm::CodeGenFileType type) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager passes;
  QUERN_CHECK(!machine().addPassesToEmitFile(passes, out, nullptr, type), "LLVM cannot emit objects");
  passes.run(module);
  return bytes;
}

// ---- objects to functions

class Linker {
 public:
  static Linker& get() {
    static auto* const made = new Linker;  // NOLINT(cppcoreguidelines-owning-memory): code runs to the end
    return *made;
  }

  std::pair<Function, std::shared_ptr<void>> link(llvm::SmallVector<char, 0> object,
                                                  const std::string& function) {
    auto& session = jit_->getExecutionSession();
    llvm::orc::JITDylib& library = session.createBareJITDylib(fmt::format("kernel {}", next_++));
    library.addToLinkOrder(*functions_);
    std::shared_ptr<void> owner(&library, [&session](void* held) {
      llvm::consumeError(session.removeJITDylib(*static_cast<llvm::orc::JITDylib*>(held)));
    });
    succeed(jit_->addObjectFile(library,
                                std::make_unique<llvm::SmallVectorMemoryBuffer>(std::move(object), false)));
    const llvm::orc::ExecutorAddr address = succeed(jit_->lookup(library, function));
    return {address.toPtr<Function>(), std::move(owner)};
  }

 private:
  Linker() {
    jit_ = succeed(llvm::orc::LLJITBuilder()
                       .setJITTargetMachineBuilder(detect())
                       .setPlatformSetUp(llvm::orc::setUpInactivePlatform)
                       .create());
    functions_ = &jit_->getExecutionSession().createBareJITDylib("functions");
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
    succeed(functions_->define(llvm::orc::absoluteSymbols(
        {{jit_->mangleAndIntern(name),
          {llvm::orc::ExecutorAddr::fromPtr(function), llvm::JITSymbolFlags::Exported}}})));
  }

  std::unique_ptr<llvm::orc::LLJIT> jit_;
  llvm::orc::JITDylib* functions_ = nullptr;
  std::atomic<uint64_t> next_{0};
};

}  // namespace

Compiled compile(const LinearProgram& program, bool no_alias) {
  llvm::LLVMContext context;
  LlvmProgram made = rendered(program, context, no_alias);
  optimise(*made.module, machine());
  Compiled result;
  result.params = made.params, result.variables = made.variables, result.scratch_bytes = made.scratch_bytes;
  std::tie(result.function, result.code) =
      Linker::get().link(emit(*made.module, llvm::CodeGenFileType::ObjectFile), made.function);
  if (made.threads) {
    QUERN_CHECK(made.threads.is_int_const(), "a number of threads that is not constant");
    result.threads = static_cast<int64_t>(made.threads.int_value());
  }
  return result;
}

const Host& host() {
  static const Host found = [] {
    auto builder = detect();
    const std::string features = builder.getFeatures().getString();
    auto has = [&](const char* feature) {
      return features.find(fmt::format("+{}", feature)) != std::string::npos;
    };
    const int64_t bytes = has("avx512f") ? 64 : has("avx2") ? 32 : 16;
    const bool many = has("avx512f") || builder.getTargetTriple().isAArch64();
    return Host{builder.getCPU(), bytes, many ? 32 : 16, has("f16c") || has("fullfp16"),
                has("fma") || builder.getTargetTriple().isAArch64()};
  }();
  return found;
}

std::string llvm_text(const LinearProgram& program, bool optimised) {
  llvm::LLVMContext context;
  const LlvmProgram made = rendered(program, context, true);
  if (optimised) optimise(*made.module, machine());
  std::string text;
  llvm::raw_string_ostream out(text);
  made.module->print(out, nullptr);
  return text;
}

std::string assembly(const LinearProgram& program) {
  llvm::LLVMContext context;
  const LlvmProgram made = rendered(program, context, true);
  optimise(*made.module, machine());
  const auto text = emit(*made.module, llvm::CodeGenFileType::AssemblyFile);
  return {text.begin(), text.end()};
}

}  // namespace quern::cpu
