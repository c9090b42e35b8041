// Linear programs on the INTERP device: instruction by instruction, so that what codegen makes is checked
// apart from any renderer.
#include <fmt/format.h>

#include "quern/ir/pass/linear_program.h"
#include "quern/runtime/interp/compile.h"
#include "quern/runtime/interp/compiler.h"

namespace quern::interp {
namespace {

class LinearCompiler {
 public:
  Code run(const LinearProgram& program) {
    code_.name = program.name;
    blocks_.push_back(emit_.new_block());
    code_.first_block = blocks_[0];
    for (const UOp& u : program.list) add(u);
    QUERN_CHECK(blocks_.size() == 1 + groups_, "a loop that is not closed:\n" + program.text());
    return std::move(code_);
  }

 private:
  uint32_t block() const { return blocks_.back(); }

  uint32_t slot(const UOp& given) {
    const UOp* u = &given;
    while (u->op() == Op::AFTER || u->op() == Op::NOOP) u = &u->src(0);
    if (u->is_const()) return emit_.constant(u->dtype(), u->value());
    const auto found = slots_.find(*u);
    QUERN_CHECK(found != slots_.end(), "a value that is not in line: " + std::string(name(u->op())));
    return found->second;
  }

  uint32_t area_of(const UOp& memory) {
    const auto [known, added] = areas_.try_emplace(memory, static_cast<uint32_t>(code_.areas.size()));
    if (!added) return known->second;
    Area area;
    area.element = memory.dtype().scalar();
    const int64_t size = memory.dtype().size();
    area.elements = size < 0 ? DType::kUnsized : size * memory.dtype().lanes();
    if (memory.op() == Op::PARAM) area.argument = memory.arg().integer();
    area.is_of_thread = memory.op() == Op::DEFINE_REG;
    area.text = fmt::format("{} {}", name(memory.op()), memory.arg().integer());
    code_.areas.push_back(std::move(area));
    return known->second;
  }

  // A position where the gate is open, else Invalid.
  uint32_t gated(uint32_t gate, uint32_t position) {
    const uint32_t to = emit_.new_slot();
    const uint32_t operands[] = {gate, position, emit_.constant(dtypes::index, Const::invalid())};
    emit_.elementwise(block(), Op::WHERE, dtypes::index, dtypes::index, to, operands);
    return to;
  }
  // Of a LOAD or STORE, for one of its lanes, the slot of the position of the first.
  uint32_t lane_position(const UOp& access, const UOp& index, uint32_t lane) {
    const uint32_t at = slot(index);
    return access.src().size() > 2 ? gated(slot(access.src(2)) + lane, at) : at;
  }

  // Of an INDEX: the slot of its position in scalars, Invalid where its gate is closed.
  uint32_t position(const UOp& index) {
    uint32_t at = slot(position_of(index));
    if (has_gate(index)) at = gated(slot(gate_of(index)), at);
    const int width = storage_of(index).dtype().lanes();
    if (width == 1) return at;
    return emit_.binary(block(), Op::MUL, at, emit_.constant(dtypes::index, Const::of_int(width)));
  }

  void open(uint32_t variable, uint32_t end, bool is_of_groups = false) {
    const uint32_t inner = emit_.new_block();
    emit_.loop(block(), {variable, end, inner, is_of_groups});
    blocks_.push_back(inner);
  }

  // Workgroups are steps of a loop that goes to the end of the program.
  void special(const UOp& u) {
    if (u.arg().text().starts_with("g")) {
      QUERN_CHECK(blocks_.size() == 1 + groups_, "the index of a workgroup in a loop");
      const uint32_t end = slot(u.src(0));
      slots_[u] = emit_.new_slot();
      open(slots_[u], end, true);
      groups_++;
      return;
    }
    if (!u.src(0).is_int_const()) refuse(u, "a symbolic number of threads");
    slots_[u] = emit_.new_slot();
    code_.threads.push_back({slots_[u], static_cast<int64_t>(u.src(0).int_value())});
  }

  void add(const UOp& u) {
    const auto lanes = static_cast<uint32_t>(u.dtype().lanes());
    switch (u.op()) {
      case Op::PARAM:
      case Op::DEFINE_LOCAL:
      case Op::DEFINE_REG: (void)area_of(u); return;
      case Op::DEFINE_VAR: {
        const VariableArg& v = u.arg().variable();
        slots_[u] = emit_.new_slot();
        code_.variables.push_back({v.name, slots_[u], v.min, v.max});
        return;
      }
      case Op::RANGE: {
        const uint32_t end = slot(u.src(0));
        slots_[u] = emit_.new_slot();
        open(slots_[u], end);
        return;
      }
      case Op::IF: open(emit_.new_slot(), slot(u.src(0))); return;  // a loop of one step or none
      case Op::END:
      case Op::ENDIF: blocks_.pop_back(); return;
      case Op::INDEX: slots_[u] = position(u); return;
      case Op::LOAD: {
        const UOp& index = index_of_address(u.src(0));
        const uint32_t to = emit_.new_slots(u.dtype().lanes()), area = area_of(storage_of(index));
        for (uint32_t i = 0; i < lanes; i++)
          emit_.add(block(), {load_for(u.dtype().scalar()), to + i, lane_position(u, index, i), area,
                              u.src().size() > 1 ? slot(u.src(1)) + i : kNoSlot, i});
        slots_[u] = to;
        return;
      }
      case Op::STORE: {
        const UOp& index = index_of_address(u.src(0));
        const uint32_t from = slot(u.src(1)), area = area_of(storage_of(index));
        const DType dtype = u.src(1).dtype();
        for (uint32_t i = 0; i < static_cast<uint32_t>(dtype.lanes()); i++)
          emit_.add(block(), {store_for(dtype.scalar()), 0, lane_position(u, index, i), area, from + i, i});
        return;
      }
      case Op::VECTORIZE: {
        uint32_t to = slots_[u] = emit_.new_slots(u.dtype().lanes());
        for (const UOp& s : u.src())
          for (uint32_t i = 0; i < static_cast<uint32_t>(s.dtype().lanes()); i++)
            emit_.move(block(), to++, slot(s) + i);
        return;
      }
      case Op::GEP: {
        uint32_t to = slots_[u] = emit_.new_slots(u.dtype().lanes());
        for (const int64_t lane : u.arg().ints())
          emit_.move(block(), to++, slot(u.src(0)) + static_cast<uint32_t>(lane));
        return;
      }
      case Op::SPECIAL: special(u); return;
      case Op::BARRIER:
        emit_.add(block(), {barrier});
        code_.has_barrier.resize(code_.blocks.size());
        for (const uint32_t b : blocks_) code_.has_barrier[b] = 1;
        return;
      default: break;
    }
    if (!is_elementwise(u.op())) refuse(u, "INTERP does not run it in a linear program");
    if (u.dtype().is_ptr()) return;
    const uint32_t to = slots_[u] = emit_.new_slots(u.dtype().lanes());
    for (uint32_t lane = 0; lane < lanes; lane++) {
      uint32_t operands[3] = {};
      for (size_t i = 0; i < u.src().size(); i++) operands[i] = slot(u.src(i)) + lane;
      emit_.elementwise(block(), u.op(), u.dtype(), u.src().back().dtype(), to + lane,
                        {operands, u.src().size()});
    }
  }

  Code code_;
  Emitter emit_{code_};
  std::vector<uint32_t> blocks_;
  size_t groups_ = 0;
  std::unordered_map<UOp, uint32_t> slots_, areas_;
};

}  // namespace

Code compile(const LinearProgram& program) { return LinearCompiler().run(program); }

}  // namespace quern::interp
