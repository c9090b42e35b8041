#include "quern/runtime/cpu/compile.h"

#include <fmt/format.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/CodeGen/MachineModuleInfo.h>
#include <llvm/CodeGen/Passes.h>
#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "quern/base/error.h"
#include "quern/render/llvm/llvm.h"
#include "quern/runtime/cpu/host.h"
#include "quern/runtime/cpu/llvm_error.h"

namespace quern::cpu {
namespace {

// ---- the host

llvm::orc::JITTargetMachineBuilder detect() {
  static const bool initialised = [] {
    return !llvm::InitializeNativeTarget() && !llvm::InitializeNativeTargetAsmPrinter() &&
           !llvm::InitializeNativeTargetAsmParser();
  }();
  QUERN_CHECK(initialised, "LLVM has no code generator for this machine");
  auto builder = value_or_throw(llvm::orc::JITTargetMachineBuilder::detectHost());
  // Constants are found by their distance from the code; else each is an address of 8 bytes to be loaded
  // first.
  builder.setRelocationModel(llvm::Reloc::PIC_);
  builder.setCodeModel(llvm::CodeModel::Small);
  builder.setCodeGenOptLevel(llvm::CodeGenOptLevel::Default);
  if (builder.getTargetTriple().isX86()) {  // no wider vectors than those that programs are lowered for
    if (host().vector_bytes < 64) builder.getFeatures().AddFeature("avx512f", false);
    if (host().vector_bytes < 32) builder.getFeatures().AddFeature("avx2", false);
  }
  builder.getOptions().AllowFPOpFusion = llvm::FPOpFusion::Strict;  // rounded as written
  return builder;
}

// A TargetMachine is used by one thread at a time; to make one takes a while.
class Machine {
 public:
  Machine() {
    Free& all = free();
    const std::lock_guard lock(all.mutex);
    if (all.machines.empty()) {
      machine_ = value_or_throw(detect().createTargetMachine());
    } else {
      machine_ = std::move(all.machines.back());
      all.machines.pop_back();
    }
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  ~Machine() {
    const std::lock_guard lock(free().mutex);
    try {
      free().machines.push_back(std::move(machine_));
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): then another one is made the next time
    }
  }
  llvm::TargetMachine& operator*() const { return *machine_; }
  llvm::TargetMachine* operator->() const { return machine_.get(); }

 private:
  struct Free {
    std::mutex mutex;
    std::vector<std::unique_ptr<llvm::TargetMachine>> machines;
  };
  static Free& free() {
    static auto* const all = new Free;  // NOLINT(cppcoreguidelines-owning-memory)
    return *all;
  }
  std::unique_ptr<llvm::TargetMachine> machine_;
};

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

// Programs that have their vectors already.
constexpr const char* kPassesOfVectors =
    "function(sroa<modify-cfg>,early-cse<memssa>,instcombine<max-iterations=1;no-verify-fixpoint>,"
    "simplifycfg,loop-mssa(licm<allowspeculation>))";

// Large programs: LLVM's vectoriser, scheduler and register allocators take time that is quadratic in the
// length of straight code. So it is cut, nothing puts it together again, and from some size on the quick code
// generator has to do.
constexpr const char* kPassesOfLarge =
    "function(sroa<modify-cfg>,early-cse<memssa>,"
    "loop-mssa(licm<allowspeculation>))";
constexpr const char* kPassesOfHuge = "function(sroa<modify-cfg>,early-cse<memssa>)";
constexpr int64_t kLarge = 3000, kHuge = 12000;  // instructions
constexpr int64_t kLongestBlock = 500;

bool is_large(const LinearProgram& program) { return std::ssize(program.list) > kLarge; }
bool is_huge(const LinearProgram& program) { return std::ssize(program.list) > kHuge; }

const char* passes_for(const LinearProgram& program) {
  if (is_huge(program)) return kPassesOfHuge;
  if (is_large(program)) return kPassesOfLarge;
  const bool vectors = std::ranges::any_of(program.list, [](const UOp& u) {
    return u.op() == Op::STORE && u.src(1).dtype().lanes() > 1 && storage_of(u.src(0)).op() == Op::PARAM;
  });
  return vectors ? kPassesOfVectors : kPasses;
}

// A vector of bools that one bool chooses: LLVM 19 may take such a choice apart and put it together again
// without end. As arithmetic it does not.
void spread_conditions(llvm::Module& module) {
  std::vector<llvm::SelectInst*> found;
  for (llvm::Function& function : module)
    for (llvm::Instruction& i : llvm::instructions(function))
      if (auto* const choice = llvm::dyn_cast<llvm::SelectInst>(&i);
          choice != nullptr && choice->getType()->isVectorTy() && choice->getType()->isIntOrIntVectorTy(1) &&
          !choice->getCondition()->getType()->isVectorTy())
        found.push_back(choice);
  for (llvm::SelectInst* choice : found) {
    llvm::IRBuilder<> b(choice);
    const auto lanes = llvm::cast<llvm::FixedVectorType>(choice->getType())->getElementCount();
    llvm::Value* mask = b.CreateVectorSplat(lanes, choice->getCondition());
    llvm::Value* both = b.CreateOr(b.CreateAnd(mask, choice->getTrueValue()),
                                   b.CreateAnd(b.CreateNot(mask), choice->getFalseValue()));
    choice->replaceAllUsesWith(both);
    choice->eraseFromParent();
  }
}

// A vector that is made element by element.
bool is_made_of_nothing(const llvm::InsertElementInst* insert) {
  const llvm::Value* v = insert;
  while (const auto* const inner = llvm::dyn_cast<llvm::InsertElementInst>(v)) v = inner->getOperand(0);
  return llvm::isa<llvm::UndefValue>(v);
}

// One bool of a vector of bools that is set: where the vector is a comparison, LLVM 19 may forget it when it
// makes a mask register of it. As arithmetic it does not.
void insert_conditions(llvm::Module& module) {
  std::vector<llvm::InsertElementInst*> found;
  for (llvm::Function& function : module)
    for (llvm::Instruction& i : llvm::instructions(function))
      if (auto* const insert = llvm::dyn_cast<llvm::InsertElementInst>(&i);
          insert != nullptr && insert->getType()->isIntOrIntVectorTy(1) &&
          llvm::isa<llvm::ConstantInt>(insert->getOperand(2)) && !is_made_of_nothing(insert))
        found.push_back(insert);
  for (llvm::InsertElementInst* insert : found) {
    llvm::IRBuilder<> b(insert);
    const auto* const type = llvm::cast<llvm::FixedVectorType>(insert->getType());
    const uint64_t at = llvm::cast<llvm::ConstantInt>(insert->getOperand(2))->getZExtValue();
    std::vector<llvm::Constant*> others(type->getNumElements(), b.getTrue()),
        own(others.size(), b.getFalse());
    if (at >= others.size()) continue;
    others[at] = b.getFalse(), own[at] = b.getTrue();
    llvm::Value* set = b.CreateVectorSplat(type->getElementCount(), insert->getOperand(1));
    llvm::Value* before = b.CreateFreeze(insert->getOperand(0));  // what replaces a bool may replace no value
    llvm::Value* all = b.CreateOr(b.CreateAnd(before, llvm::ConstantVector::get(others)),
                                  b.CreateAnd(set, llvm::ConstantVector::get(own)));
    insert->replaceAllUsesWith(all);
    insert->eraseFromParent();
  }
}

void optimise(llvm::Module& module, llvm::TargetMachine& target, const char* list) {
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
  value_or_throw(passes.parsePassPipeline(pipeline, list));
  pipeline.run(module, modules);
  spread_conditions(module);
  insert_conditions(module);
}

LlvmOptions::Vectors vectors_of(const llvm::TargetMachine& machine) {
  const auto has = [&](const char* features) {
    return machine.getMCSubtargetInfo()->checkFeatures(features);
  };
  if (!machine.getTargetTriple().isX86()) return LlvmOptions::Vectors::PLAIN;
  if (has("+avx512f,+avx512vl,+avx512bw,+avx512dq")) return LlvmOptions::Vectors::AVX512;
  return has("+avx2") ? LlvmOptions::Vectors::AVX2 : LlvmOptions::Vectors::PLAIN;
}

LlvmProgram rendered(const LinearProgram& program, llvm::LLVMContext& context, llvm::TargetMachine& machine,
                     bool no_alias) {
  LlvmProgram result = render_llvm(program, context,
                                   {.no_alias = no_alias,
                                    .longest_block = is_large(program) ? kLongestBlock : 0,
                                    .vectors = vectors_of(machine)});
  result.module->setDataLayout(machine.createDataLayout());
  result.module->setTargetTriple(machine.getTargetTriple().str());
  return result;
}

// What LLVM adds by itself, without two passes that take a third of its time and are not worth it: one looks
// for colder blocks of a loop to move code to, one orders instructions once more for processors that do not
// order them themselves.
std::string emit(llvm::Module& module, llvm::TargetMachine& machine, llvm::CodeGenFileType type) {
  auto& target = static_cast<llvm::LLVMTargetMachine&>(machine);  // NOLINT(*-static-cast-downcast): all are
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager passes;
  llvm::TargetPassConfig* chosen = target.createPassConfig(passes);
  chosen->disablePass(&llvm::MachineSinkingID);
  chosen->disablePass(&llvm::PostRASchedulerID);
  auto* functions = new llvm::MachineModuleInfoWrapperPass(&target);  // NOLINT(*-owning-memory): of `passes`
  passes.add(chosen);
  passes.add(functions);
  bool failed = chosen->addISelPasses();
  if (!failed) {
    chosen->addMachinePasses();
    chosen->setInitialized();
    failed = target.addAsmPrinter(passes, out, nullptr, type, functions->getMMI().getContext());
  }
  QUERN_CHECK(!failed, "LLVM cannot emit code");
  passes.add(llvm::createFreeMachineFunctionPass());
  passes.run(module);
  return {bytes.begin(), bytes.end()};
}

}  // namespace

Code compile(const LinearProgram& program, bool no_alias) {
  llvm::LLVMContext context;
  const Machine machine;
  const LlvmProgram made = rendered(program, context, *machine, no_alias);
  optimise(*made.module, *machine, passes_for(program));
  Code code;
  code.name = program.name, code.function = made.function, code.opts = program.opts;
  code.scratch_bytes = made.scratch_bytes;
  for (const UOp& p : made.params)
    code.params.push_back({p.arg().integer(), p.dtype().size(), p.dtype().base().bytes(), false,
                           std::string(p.dtype().base().name())});
  for (const UOp& u : program.list)
    if (u.op() == Op::STORE && storage_of(u.src(0)).op() == Op::PARAM)
      std::ranges::find(code.params, storage_of(u.src(0)).arg().integer(), &Code::Param::slot)->written =
          true;
  for (const UOp& v : made.variables) {
    const VariableArg& variable = v.arg().variable();
    code.variables.push_back({variable.name, variable.min, variable.max});
  }
  if (made.threads) {
    QUERN_CHECK(made.threads.is_int_const(), "a number of threads that is not constant");
    code.threads = static_cast<int64_t>(made.threads.int_value());
  }
  machine->setOptLevel(is_huge(program) ? llvm::CodeGenOptLevel::None : llvm::CodeGenOptLevel::Default);
  machine->setFastISel(is_huge(program));
  code.object = emit(*made.module, *machine, llvm::CodeGenFileType::ObjectFile);
  return code;
}

std::string assembly_for(const LinearProgram& program, const std::string& triple,
                         const std::string& processor) {
  static const bool initialised = [] {
#ifdef QUERN_LLVM_NATIVE_ONLY  // the module carries no other
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetAsmParser();
#else
    llvm::InitializeAllTargetInfos();
    llvm::InitializeAllTargets();
    llvm::InitializeAllTargetMCs();
    llvm::InitializeAllAsmPrinters();
    llvm::InitializeAllAsmParsers();
#endif
    return true;
  }();
  (void)initialised;
  std::string reason;
  const llvm::Target* const target = llvm::TargetRegistry::lookupTarget(triple, reason);
  if (target == nullptr) throw Error(fmt::format("no code for {}: {}", triple, reason));
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  const std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, processor, "", options, llvm::Reloc::PIC_));
  llvm::LLVMContext context;
  const LlvmProgram made = rendered(program, context, *machine, true);
  optimise(*made.module, *machine, passes_for(program));
  return emit(*made.module, *machine, llvm::CodeGenFileType::AssemblyFile);
}

std::string llvm_text(const LinearProgram& program, bool optimised) {
  llvm::LLVMContext context;
  const Machine machine;
  const LlvmProgram made = rendered(program, context, *machine, true);
  if (optimised) optimise(*made.module, *machine, passes_for(program));
  std::string text;
  llvm::raw_string_ostream out(text);
  made.module->print(out, nullptr);
  return text;
}

}  // namespace quern::cpu
