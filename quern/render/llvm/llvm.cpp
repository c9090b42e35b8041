#include "quern/render/llvm/llvm.h"

#include <fmt/format.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "quern/render/llvm/masks.h"
#include "quern/render/llvm/ops.h"

namespace quern {
namespace {

using llvm::BasicBlock;
using llvm::Value;

// Registers up to this many bytes stand on the stack, where LLVM finds them and takes them apart.
constexpr int64_t kMostStack = 4096;

std::string identifier(const std::string& name) {
  std::string result = "k_";
  for (const char c : name) result += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return result;
}

// Where a program that takes long asks whether to stop: after how many steps of which loops. Between two
// questions lie about as many instructions as take a millisecond, so that asking costs nothing that can be
// measured; of a program that is done in a fraction of a second there are none.
std::unordered_map<UOp, int64_t> polled_loops(const LinearProgram& program) {
  constexpr double kLong = 1 << 27, kBetween = 1 << 20;
  struct Loop {
    UOp range;
    double instructions = 0;  // of one step
    bool asks = false;        // it, or one inside
  };
  std::unordered_map<UOp, int64_t> result;
  std::vector<Loop> open(1);  // the first is the program
  for (const UOp& u : program.list) {
    open.back().instructions += 1;
    if (u.op() == Op::RANGE) open.push_back({u});
    if (u.op() != Op::END) continue;
    const Loop loop = open.back();
    open.pop_back();
    const bool threads = loop.range.arg().range().kind == AxisKind::THREAD;
    const double steps = threads ? 1 : static_cast<double>(loop.range.src(0).vmax());
    const double all = steps * loop.instructions;
    const bool asks = !threads && !loop.asks && all >= kBetween;
    if (asks) result[loop.range] = std::max<int64_t>(1, static_cast<int64_t>(kBetween / loop.instructions));
    open.back().instructions += all;
    open.back().asks = open.back().asks || loop.asks || asks;
  }
  if (open.back().instructions < kLong) result.clear();
  return result;
}

class Renderer {
 public:
  Renderer(const LinearProgram& program, llvm::LLVMContext& context, const LlvmOptions& options)
      : program_(program),
        options_(options),
        context_(context),
        build_(context),
        masked_(build_, options.vectors) {
    result_.function = identifier(program.name);
    result_.module = std::make_unique<llvm::Module>(result_.function, context);
  }

  LlvmProgram run() {
    llvm::Type* pointer = build_.getPtrTy();
    auto* type = llvm::FunctionType::get(build_.getVoidTy(),
                                         {pointer, pointer, pointer, build_.getInt64Ty(), pointer}, false);
    function_ =
        llvm::Function::Create(type, llvm::Function::ExternalLinkage, result_.function, *result_.module);
    function_->addFnAttr(llvm::Attribute::NoUnwind);
    for (unsigned i = 0; i < 3; i++) function_->addParamAttr(i, llvm::Attribute::NoAlias);
    build_.SetInsertPoint(new_block("entry"));
    make_scopes();
    polled_ = polled_loops(program_);
    find_rare();
    for (const UOp& u : program_.list) {
      cut_long_block();
      if (is_streamed(u)) {
        streams_.push_back(u);
        continue;
      }
      write_streams();
      if (!waits_.contains(u)) add(u);
    }
    write_streams();
    if (leave_ != nullptr) {
      build_.CreateBr(leave_);
      build_.SetInsertPoint(leave_);
    }
    if (aligned_ != nullptr) order_streams();
    build_.CreateRetVoid();
    std::string problem;
    llvm::raw_string_ostream out(problem);
    QUERN_CHECK(!llvm::verifyFunction(*function_, &out), problem + "\n" + program_.text());
    return std::move(result_);
  }

 private:
  BasicBlock* new_block(const char* name) { return BasicBlock::Create(context_, name, function_); }

  void cut_long_block() {
    if (build_.GetInsertBlock() != counted_) counted_ = build_.GetInsertBlock(), in_block_ = 0;
    if (options_.longest_block == 0 || ++in_block_ <= options_.longest_block) return;
    BasicBlock* next = new_block("next");
    build_.CreateBr(next);
    build_.SetInsertPoint(next);
  }

  // ---- values

  Value* value(const UOp& given) {
    const UOp* u = &given;
    while (u->op() == Op::AFTER || u->op() == Op::NOOP) u = &u->src(0);
    if (u->is_const()) return llvm_constant(context_, u->dtype(), u->value());
    const auto found = values_.find(*u);
    QUERN_CHECK(found != values_.end(),
                fmt::format("{} is not in line:\n{}", name(u->op()), program_.text()));
    return found->second;
  }

  Value* argument(unsigned i) { return function_->getArg(i); }

  // ---- memory

  // PARAMs do not overlap: each has a scope of its own, and its accesses none of the others.
  void make_scopes() {
    llvm::MDBuilder metadata(context_);
    llvm::MDNode* domain = metadata.createAnonymousAliasScopeDomain(result_.function);
    for (const UOp& u : program_.list)
      if (u.op() == Op::PARAM) scopes_[u] = metadata.createAnonymousAliasScope(domain);
  }
  void set_scopes(llvm::Instruction* access, const UOp& memory) {
    if (!options_.no_alias || memory.op() != Op::PARAM) return;
    llvm::SmallVector<llvm::Metadata*> others;
    for (const auto& [param, scope] : scopes_)
      if (!same(param, memory)) others.push_back(scope);
    access->setMetadata(llvm::LLVMContext::MD_alias_scope, llvm::MDNode::get(context_, {scopes_.at(memory)}));
    if (!others.empty())
      access->setMetadata(llvm::LLVMContext::MD_noalias, llvm::MDNode::get(context_, others));
  }

  Value* memory(const UOp& u) {
    llvm::Type* pointer = build_.getPtrTy();
    if (u.op() == Op::PARAM) {
      result_.params.push_back(u);
      Value* place =
          build_.CreateConstInBoundsGEP1_64(pointer, argument(0), static_cast<uint64_t>(u.arg().integer()));
      llvm::LoadInst* load = build_.CreateLoad(pointer, place);
      load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
      return load;
    }
    const int64_t bytes = u.dtype().size() * u.dtype().base().bytes();
    if (u.op() == Op::DEFINE_REG && bytes <= kMostStack) {
      auto* type = llvm::ArrayType::get(llvm_memory_type(context_, u.dtype().base()),
                                        static_cast<uint64_t>(u.dtype().size()));
      llvm::BasicBlock& entry = function_->getEntryBlock();
      llvm::IRBuilder<> at_start(&entry, entry.begin());
      return at_start.CreateAlloca(type);
    }
    const int64_t offset = result_.scratch_bytes;
    result_.scratch_bytes += (bytes + 63) / 64 * 64;
    return build_.CreateConstInBoundsGEP1_64(build_.getInt8Ty(), argument(2), static_cast<uint64_t>(offset));
  }

  Value* address(const UOp& u) {
    const UOp& under = storage_of(u);
    return build_.CreateGEP(llvm_memory_type(context_, under.dtype().base()), value(under),
                            {value(position_of(u))});
  }

  static llvm::Align alignment(DType dtype) {
    return llvm::Align(static_cast<uint64_t>(dtype.scalar().bytes()));
  }

  Value* read(const UOp& u, Value* from) {
    llvm::LoadInst* load =
        build_.CreateAlignedLoad(llvm_memory_type(context_, u.dtype()), from, alignment(u.dtype()));
    set_scopes(load, storage_of(u.src(0)));
    if (!u.dtype().is_bool()) return load;
    return build_.CreateICmpNE(load, llvm::Constant::getNullValue(load->getType()));
  }

  Value* read_masked(const UOp& u, Value* from) {
    Value* otherwise = value(u.src(1));
    const auto mark = [&](llvm::Instruction* load) { set_scopes(load, storage_of(u.src(0))); };
    if (!u.dtype().is_bool()) return masked_.read(from, value(u.src(2)), otherwise, mark);
    otherwise = build_.CreateZExt(otherwise, llvm_memory_type(context_, u.dtype()));
    return build_.CreateIsNotNull(masked_.read(from, value(u.src(2)), otherwise, mark));
  }

  Value* load(const UOp& u) {
    const UOp& index = index_of_address(u.src(0));
    Value* from = value(index);
    if (const int64_t distance = fetched_ahead(u); distance != 0) fetch(from, distance, index.dtype().base());
    if (u.src().size() > 2) return read_masked(u, from);
    if (!has_gate(index)) return read(u, from);
    BasicBlock *before = build_.GetInsertBlock(), *open = new_block("open"), *then = new_block("then");
    Value* otherwise = value(u.src(1));
    build_.CreateCondBr(value(gate_of(index)), open, then);
    build_.SetInsertPoint(open);
    Value* loaded = read(u, from);
    build_.CreateBr(then);
    build_.SetInsertPoint(then);
    llvm::PHINode* result = build_.CreatePHI(loaded->getType(), 2);
    result->addIncoming(loaded, open);
    result->addIncoming(otherwise, before);
    return result;
  }

  // Into all caches; beyond the end of memory that does nothing.
  void fetch(Value* from, int64_t distance, DType dtype) {
    Value* address = build_.CreateConstGEP1_64(llvm_memory_type(context_, dtype), from, distance);
    build_.CreateIntrinsic(llvm::Intrinsic::prefetch, {build_.getPtrTy()},
                           {address, build_.getInt32(0), build_.getInt32(3), build_.getInt32(1)});
  }

  void store(const UOp& u) {
    const UOp& index = index_of_address(u.src(0));
    Value* stored = value(u.src(1));
    const DType dtype = u.src(1).dtype();
    if (dtype.is_bool()) stored = build_.CreateZExt(stored, llvm_memory_type(context_, dtype));
    if (u.src().size() > 2)
      masked_.write(value(index), value(u.src(2)), stored,
                    [&](llvm::Instruction* access) { set_scopes(access, storage_of(index)); });
    else
      set_scopes(build_.CreateAlignedStore(stored, value(index), alignment(dtype)), storage_of(index));
  }

  // ---- stores past the caches

  // Those that follow each other, together: such stores need memory that is aligned.
  void write_streams() {
    if (streams_.empty()) return;
    BasicBlock *past = new_block("past"), *plain = new_block("plain"), *then = new_block("then");
    // the parts of a line one after the other: few lines are written at once
    std::ranges::stable_sort(streams_, {}, constant_of_address);
    build_.CreateCondBr(is_aligned(), past, plain);
    for (BasicBlock* block : {past, plain}) {
      build_.SetInsertPoint(block);
      for (const UOp& u : streams_) {
        const UOp& index = index_of_address(u.src(0));
        const DType dtype = u.src(1).dtype();
        const auto bytes = static_cast<uint64_t>(dtype.bytes());
        llvm::StoreInst* store = build_.CreateAlignedStore(
            value(u.src(1)), value(index), block == past ? llvm::Align(bytes) : alignment(dtype));
        set_scopes(store, storage_of(index));
        if (block == past)
          store->setMetadata(llvm::LLVMContext::MD_nontemporal,
                             llvm::MDNode::get(context_, llvm::ConstantAsMetadata::get(build_.getInt32(1))));
      }
      build_.CreateBr(then);
    }
    build_.SetInsertPoint(then);
    streams_.clear();
  }
  static wide constant_of_address(const UOp& store) {
    const UOp& position = position_of(index_of_address(store.src(0)));
    return position.op() == Op::ADD && position.src(1).is_int_const() ? position.src(1).int_value() : 0;
  }
  // Whether all memory that is written past the caches begins at a multiple of its vectors.
  Value* is_aligned() {
    if (aligned_ != nullptr) return aligned_;
    llvm::IRBuilder<> entry(&function_->getEntryBlock(), function_->getEntryBlock().begin());
    std::map<int64_t, int64_t> written;  // bytes of a vector by the PARAM's number
    for (const UOp& u : program_.list)
      if (is_streamed(u)) {
        int64_t& bytes = written[storage_of(u.src(0)).arg().integer()];
        bytes = std::max<int64_t>(bytes, u.src(1).dtype().bytes());
      }
    Value* rest = entry.getInt64(0);
    for (const auto& [number, bytes] : written) {
      Value* place =
          entry.CreateConstInBoundsGEP1_64(entry.getPtrTy(), argument(0), static_cast<uint64_t>(number));
      Value* start = entry.CreatePtrToInt(entry.CreateLoad(entry.getPtrTy(), place), entry.getInt64Ty());
      rest = entry.CreateOr(rest, entry.CreateAnd(start, static_cast<uint64_t>(bytes - 1)));
    }
    aligned_ = entry.CreateICmpEQ(rest, entry.getInt64(0));
    return aligned_;
  }
  // Other threads see them when the kernel has ended.
  void order_streams() {
#if defined(__x86_64__)
    build_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
#endif
  }

  // ---- loops and gates

  struct Open {
    BasicBlock *body, *end;
    llvm::PHINode* variable = nullptr;  // of a loop
    Value* steps = nullptr;
    int64_t polled = 0;  // after so many steps the program asks whether to stop; 0: it does not
    // Of a loop that is run in parts, after each of which it asks: where a part begins, and its first step.
    BasicBlock* part = nullptr;
    llvm::PHINode* first = nullptr;
  };

  void open_loop(const UOp& u) {
    if (u.arg().range().kind == AxisKind::THREAD) {
      QUERN_CHECK(open_.empty() && !result_.threads,
                  "threads that are not outermost, or twice:\n" + program_.text());
      result_.threads = u.src(0);
      values_[u] = build_.CreateIntCast(argument(3), llvm_type(context_, u.dtype()), true);
      open_.push_back({nullptr, nullptr});
      return;
    }
    BasicBlock *before = build_.GetInsertBlock(), *body = new_block("loop"), *end = new_block("end");
    Value* steps = value(u.src(0));
    if (u.src(0).vmin() > 0)
      build_.CreateBr(body);
    else
      build_.CreateCondBr(build_.CreateICmpSGT(steps, llvm::Constant::getNullValue(steps->getType())), body,
                          end);
    build_.SetInsertPoint(body);
    llvm::PHINode* variable = build_.CreatePHI(steps->getType(), 2);
    variable->addIncoming(llvm::Constant::getNullValue(steps->getType()), before);
    const auto found = polled_.find(u);
    Open loop{body, end, variable, steps, found == polled_.end() ? 0 : found->second};
    if (loop.polled > 1) {  // the loop is one over parts, and each part one over steps
      loop.part = body, loop.first = variable, loop.body = new_block("step"), loop.end = new_block("asked");
      Value* most = llvm::ConstantInt::get(steps->getType(), static_cast<uint64_t>(loop.polled));
      Value* left = build_.CreateSub(steps, variable, "", true, true);
      left = build_.CreateSelect(build_.CreateICmpSLT(left, most), left, most);
      loop.steps = build_.CreateAdd(variable, left, "", true, true);
      build_.CreateBr(loop.body);
      build_.SetInsertPoint(loop.body);
      loop.variable = build_.CreatePHI(steps->getType(), 2);
      loop.variable->addIncoming(variable, body);
      parts_.push_back({end, steps});
    }
    values_[u] = loop.variable;
    open_.push_back(loop);
  }
  void close_loop() {
    const Open loop = open_.back();
    open_.pop_back();
    if (loop.variable == nullptr) return;
    Value* next =
        build_.CreateAdd(loop.variable, llvm::ConstantInt::get(loop.variable->getType(), 1), "", true, true);
    if (loop.polled == 1) ask();
    loop.variable->addIncoming(next, build_.GetInsertBlock());
    build_.CreateCondBr(build_.CreateICmpSLT(next, loop.steps), loop.body, loop.end);
    build_.SetInsertPoint(loop.end);
    if (loop.part == nullptr) return;
    const auto [end, steps] = parts_.back();
    parts_.pop_back();
    ask();
    loop.first->addIncoming(loop.steps, build_.GetInsertBlock());
    build_.CreateCondBr(build_.CreateICmpSLT(loop.steps, steps), loop.part, end);
    build_.SetInsertPoint(end);
  }
  // Leaves the program if it is to stop. The call sees none of the program's memory.
  void ask() {
    if (leave_ == nullptr) leave_ = new_block("leave");
    auto* type = llvm::FunctionType::get(build_.getInt32Ty(), {build_.getPtrTy()}, false);
    llvm::CallInst* stops =
        build_.CreateCall(type, build_.CreateLoad(build_.getPtrTy(), argument(4)), {argument(4)});
    stops->setDoesNotThrow();
    stops->setMemoryEffects(llvm::MemoryEffects::inaccessibleOrArgMemOnly());
    BasicBlock* on = new_block("on");
    build_.CreateCondBr(build_.CreateIsNull(stops), on, leave_);
    build_.SetInsertPoint(on);
  }
  void open_gate(const UOp& u) {
    BasicBlock *body = new_block("if"), *end = new_block("endif");
    build_.CreateCondBr(value(u.src(0)), body, end);
    build_.SetInsertPoint(body);
    open_.push_back({body, end});
  }
  void close_gate() {
    build_.CreateBr(open_.back().end);
    build_.SetInsertPoint(open_.back().end);
    open_.pop_back();
  }

  // ---- what is seldom needed

  void find_rare() {
    rare_ = rare_parts(program_);
    for (const auto& [where, nodes] : rare_) waits_.insert(nodes.begin(), nodes.end());
  }
  // Where the condition holds for no lane, the nodes that only its second source needs are not computed.
  void rare(const UOp& u, const UOps& nodes) {
    Value *condition = value(u.src(0)), *otherwise = value(u.src(2));
    BasicBlock *before = build_.GetInsertBlock(), *seldom = new_block("rare"), *then = new_block("then");
    Value* any = condition->getType()->isVectorTy() ? build_.CreateOrReduce(condition) : condition;
    build_.CreateCondBr(any, seldom, then, llvm::MDBuilder(context_).createBranchWeights(1, 1000));
    build_.SetInsertPoint(seldom);
    for (const UOp& node : nodes) add(node);
    Value* chosen = build_.CreateSelect(condition, value(u.src(1)), otherwise);
    BasicBlock* end = build_.GetInsertBlock();
    build_.CreateBr(then);
    build_.SetInsertPoint(then);
    llvm::PHINode* result = build_.CreatePHI(chosen->getType(), 2);
    result->addIncoming(chosen, end);
    result->addIncoming(otherwise, before);
    values_[u] = result;
  }

  // ---- vectors

  Value* vector_of(const UOp& u) {
    if (u.src(0).dtype().lanes() == 1 &&
        std::ranges::all_of(u.src(), [&](const UOp& s) { return same(s, u.src(0)); }))
      return build_.CreateVectorSplat(static_cast<unsigned>(u.src().size()), value(u.src(0)));
    Value* result = llvm::PoisonValue::get(llvm_type(context_, u.dtype()));
    uint64_t lane = 0;
    for (const UOp& s : u.src())
      for (int i = 0; i < s.dtype().lanes(); i++) {
        Value* part = s.dtype().lanes() == 1
                          ? value(s)
                          : build_.CreateExtractElement(value(s), static_cast<uint64_t>(i));
        result = build_.CreateInsertElement(result, part, lane++);
      }
    return result;
  }
  Value* lanes_of(const UOp& u) {
    const Ints& lanes = u.arg().ints();
    Value* from = value(u.src(0));
    if (u.src(0).dtype().lanes() == 1)
      return lanes.size() == 1 ? from : build_.CreateVectorSplat(static_cast<unsigned>(lanes.size()), from);
    if (lanes.size() == 1) return build_.CreateExtractElement(from, static_cast<uint64_t>(lanes[0]));
    llvm::SmallVector<int> mask(lanes.begin(), lanes.end());
    const UOp& parts = u.src(0);
    if (parts.op() == Op::VECTORIZE && parts.src().size() == 2 && parts.src(0).dtype().lanes() > 1)
      return build_.CreateShuffleVector(value(parts.src(0)), value(parts.src(1)), mask);
    return build_.CreateShuffleVector(from, mask);
  }

  // ---- one instruction

  void add(const UOp& u) {
    switch (u.op()) {
      case Op::PARAM:
      case Op::DEFINE_LOCAL:
      case Op::DEFINE_REG: values_[u] = memory(u); return;
      case Op::DEFINE_VAR: {
        const auto position = static_cast<uint64_t>(result_.variables.size());
        result_.variables.push_back(u);
        Value* place = build_.CreateConstInBoundsGEP1_64(build_.getInt64Ty(), argument(1), position);
        values_[u] = build_.CreateIntCast(build_.CreateLoad(build_.getInt64Ty(), place),
                                          llvm_type(context_, u.dtype()), true);
        return;
      }
      case Op::RANGE: open_loop(u); return;
      case Op::END: close_loop(); return;
      case Op::IF: open_gate(u); return;
      case Op::ENDIF: close_gate(); return;
      case Op::INDEX: values_[u] = address(u); return;
      case Op::LOAD: values_[u] = load(u); return;
      case Op::STORE: store(u); return;
      case Op::VECTORIZE: values_[u] = vector_of(u); return;
      case Op::GEP: values_[u] = lanes_of(u); return;
      case Op::BARRIER: return;  // one thread
      default: break;
    }
    QUERN_CHECK(is_elementwise(u.op()), fmt::format("LLVM: {} in a program", name(u.op())));
    if (u.dtype().is_ptr()) return;  // an address of other elements: LOAD and STORE look through it
    if (const auto found = rare_.find(u); found != rare_.end()) return rare(u, found->second);
    llvm::SmallVector<Value*, 3> operands;
    for (const UOp& s : u.src()) operands.push_back(value(s));
    values_[u] = llvm_op(build_, u, operands, options_.vectors);
  }

  const LinearProgram& program_;
  const LlvmOptions options_;
  llvm::LLVMContext& context_;
  llvm::IRBuilder<> build_;
  MaskedLanes masked_;
  llvm::Function* function_ = nullptr;
  LlvmProgram result_;
  std::unordered_map<UOp, Value*> values_;
  std::unordered_map<UOp, UOps> rare_;  // WHEREs, and the nodes that wait until they are asked for
  std::unordered_set<UOp> waits_;       // these nodes
  UOps streams_;                        // stores that are to be written
  Value* aligned_ = nullptr;            // whether they may be; none: there are none
  std::unordered_map<UOp, llvm::MDNode*> scopes_;
  std::vector<Open> open_;
  std::unordered_map<UOp, int64_t> polled_;  // loops, and after how many steps of each the program asks
  std::vector<std::pair<BasicBlock*, Value*>>
      parts_;                            // of open loops that are run in parts: what is behind, steps
  BasicBlock* leave_ = nullptr;          // where the program goes when it is to stop
  const BasicBlock* counted_ = nullptr;  // the block of which in_block_ are written
  int64_t in_block_ = 0;
};

}  // namespace

LlvmProgram render_llvm(const LinearProgram& program, llvm::LLVMContext& context,
                        const LlvmOptions& options) {
  return Renderer(program, context, options).run();
}

}  // namespace quern
