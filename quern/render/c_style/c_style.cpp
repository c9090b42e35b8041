#include "quern/render/c_style/c_style.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <unordered_map>

#include "quern/ir/node/node_map.h"
#include "quern/render/c_style/c_ops.h"

namespace quern {
namespace {

constexpr size_t kMostInlined = 100;  // characters of an expression that gets no name

std::string identifier(const std::string& name) {
  std::string result = "k_";
  for (const char c : name) result += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return result;
}

const UOp& looked_through(const UOp& given) {
  const UOp* u = &given;
  while (u->op() == Op::AFTER || u->op() == Op::NOOP) u = &u->src(0);
  return *u;
}

class Renderer {
 public:
  Renderer(const LinearProgram& program, const CStyle& style) : program_(program), style_(style) {}

  CParts run() {
    result_.name = identifier(program_.name);
    count_uses();
    find_variables();
    find_rare();
    for (const UOp& u : program_.list)
      if (!waits_.contains(u)) add(u);
    for (const auto& [name, text] : helpers_) result_.helpers += text;
    std::ranges::sort(result_.params, {}, [](const UOp& u) { return u.arg().integer(); });
    for (const UOp& u : result_.params) result_.is_written.push_back(written_.contains(u));
    const auto by_name = [](const UOp& u) { return u.arg().text(); };
    std::ranges::sort(result_.groups, {}, by_name);
    std::ranges::sort(result_.threads, {}, by_name);
    return std::move(result_);
  }

 private:
  // ---- what is known before

  // How often a value is used, and whether only in the loop in which it is computed.
  void count_uses() {
    std::vector<int> open{0};
    int next = 1;
    NodeMap<int> homes;
    for (const UOp& u : program_.list) {
      if (u.op() == Op::END || u.op() == Op::ENDIF) {
        open.pop_back();
        continue;
      }
      const auto use = [&](const UOp& given) {
        const UOp& s = looked_through(given);
        if (const int* home = homes.find(s)) uses_[s] += *home == open.back() ? 1 : 2;
      };
      if (u.op() == Op::INDEX) {
        use(position_of(u));
        if (has_gate(u)) use(gate_of(u)), use(gate_of(u));
      } else {
        for (const UOp& s : u.src()) use(s);
      }
      homes.emplace(u, open.back());
      if (u.op() == Op::RANGE || u.op() == Op::IF) open.push_back(next++);
      if (u.op() == Op::STORE) written_.insert(storage_of(u.src(0)));
    }
  }

  // Registers of one element that are only ever used as a whole are variables.
  void find_variables() {
    NodeSet other;
    for (const UOp& u : program_.list) {
      if (u.op() != Op::LOAD && u.op() != Op::STORE) continue;
      const UOp& index = index_of_address(u.src(0));
      const UOp& memory = storage_of(index);
      const DType dtype = u.op() == Op::LOAD ? u.dtype() : u.src(1).dtype();
      if (memory.op() != Op::DEFINE_REG || !position_of(index).equals(0) || has_gate(index) ||
          memory.dtype().base() != dtype || u.src().size() > 2)
        other.insert(memory);
    }
    for (const UOp& u : program_.list)
      if (u.op() == Op::DEFINE_REG && u.dtype().size() == 1 && !other.contains(u)) is_variable_.insert(u);
  }

  void find_rare() {
    rare_ = rare_parts(program_);
    for (const auto& [where, nodes] : rare_)
      for (const UOp& node : nodes) waits_.insert(node);
  }

  // ---- text

  void line(const std::string& text) { result_.body += std::string(2 * depth_, ' ') + text + "\n"; }
  bool is_vector(DType dtype) const {
    return !dtype.is_bool() &&
           std::ranges::find(style_.vector_lanes, dtype.lanes()) != style_.vector_lanes.end();
  }
  std::string new_name() { return fmt::format("v{}", names_++); }

  std::string value(const UOp& given) {
    const UOp& u = looked_through(given);
    if (u.is_const() && u.dtype().lanes() == 1) return c_constant(style_, u.dtype(), u.value());
    if (u.is_const()) {
      const std::vector<std::string> lanes(static_cast<size_t>(u.dtype().lanes()),
                                           c_constant(style_, u.dtype(), u.value()));
      return style_.vector(c_type(style_, u.dtype()), lanes);
    }
    const auto found = texts_.find(u);
    QUERN_CHECK(found != texts_.end(), fmt::format("{} is not in line:\n{}", name(u.op()), program_.text()));
    return found->second;
  }
  std::string lane(const UOp& given, int i) {
    const UOp& u = looked_through(given);
    if (u.is_const()) return c_constant(style_, u.dtype(), u.value());
    if (u.dtype().lanes() == 1) return value(u);
    return lane_of(value(u), u.dtype(), i);
  }
  std::string lane_of(const std::string& text, DType dtype, int i) const {
    if (dtype.lanes() == 1) return text;
    return is_vector(dtype) ? style_.lane(text, i) : fmt::format("{}_{}", text, i);
  }

  // A name for a value, given as a whole or by its lanes.
  void define(const UOp& u, const std::vector<std::string>& parts) {
    const std::string name = texts_[u] = new_name();
    define(name, u.dtype(), parts);
  }
  void define(const std::string& name, DType dtype, const std::vector<std::string>& parts) {
    if (parts.size() == 1 && (dtype.lanes() == 1 || is_vector(dtype)))
      return line(fmt::format("{} {} = {};", c_type(style_, dtype), name, parts[0]));
    if (is_vector(dtype))
      return line(fmt::format("{} {} = {};", c_type(style_, dtype), name,
                              style_.vector(c_type(style_, dtype), parts)));
    for (size_t i = 0; i < parts.size(); i++)
      line(fmt::format("{} {}_{} = {};", c_type(style_, dtype.scalar()), name, i, parts[i]));
  }
  void assign(const std::string& name, DType dtype, const std::vector<std::string>& parts) {
    if (parts.size() == 1) return line(fmt::format("{} = {};", name, parts[0]));
    for (size_t i = 0; i < parts.size(); i++)
      line(fmt::format("{} = {};", lane_of(name, dtype, static_cast<int>(i)), parts[i]));
  }
  std::vector<std::string> whole_or_lanes(const UOp& u) {
    if (u.dtype().lanes() == 1 || is_vector(u.dtype())) return {value(u)};
    return lanes_of(u);
  }
  std::vector<std::string> lanes_of(const UOp& u) {
    std::vector<std::string> parts;
    for (int i = 0; i < u.dtype().lanes(); i++) parts.push_back(lane(u, i));
    return parts;
  }

  // ---- memory

  void memory(const UOp& u) {
    const DType base = u.dtype().base();
    if (u.op() == Op::PARAM) {
      texts_[u] = fmt::format("data{}", u.arg().integer());
      result_.params.push_back(u);
      return;
    }
    const int64_t elements = u.dtype().size() * base.lanes();
    if (u.op() == Op::DEFINE_LOCAL) {
      texts_[u] = fmt::format("local{}", u.arg().integer());
      result_.local_bytes += u.dtype().size() * base.bytes();
      result_.declared += fmt::format("  {}{} {}[{}];\n", style_.local_memory, c_memory_type(style_, base),
                                      texts_[u], std::max<int64_t>(1, elements));
      return;
    }
    texts_[u] = fmt::format("acc{}", u.arg().integer());
    if (!is_variable_.contains(u))
      line(fmt::format("{} {}[{}];", c_memory_type(style_, base), texts_[u], std::max<int64_t>(1, elements)));
    else if (base.lanes() == 1 || is_vector(base))
      line(fmt::format("{} {};", c_type(style_, base), texts_[u]));
    else
      for (int i = 0; i < base.lanes(); i++)
        line(fmt::format("{} {}_{};", c_type(style_, base.scalar()), texts_[u], i));
  }

  std::string position(const UOp& index) {
    const int lanes = storage_of(index).dtype().lanes();
    const std::string at = value(position_of(index));
    return lanes == 1 ? at : fmt::format("{} * {}", at, lanes);
  }
  std::string element(const UOp& index, int i) {
    return i == 0 ? fmt::format("{}[{}]", value(storage_of(index)), position(index))
                  : fmt::format("{}[{} + {}]", value(storage_of(index)), position(index), i);
  }
  std::string address(const UOp& index) {
    return fmt::format("{} + {}", value(storage_of(index)), position(index));
  }

  std::vector<std::string> read(const UOp& u, const UOp& index) {
    const DType dtype = u.dtype();
    const UOp& memory = storage_of(index);
    std::vector<std::string> parts;
    parts.reserve(static_cast<size_t>(dtype.lanes()));
    if (is_variable_.contains(memory)) {
      if (dtype.lanes() == 1 || is_vector(dtype)) return {value(memory)};
      for (int i = 0; i < dtype.lanes(); i++) parts.push_back(lane_of(value(memory), dtype, i));
      return parts;
    }
    if (dtype.lanes() > 1 && is_vector(dtype))
      return {style_.read(c_type(style_, dtype), dtype, address(index))};
    for (int i = 0; i < dtype.lanes(); i++)
      parts.push_back(dtype.is_bool() ? fmt::format("({} != 0)", element(index, i)) : element(index, i));
    return parts;
  }

  // Lane by lane, those that are accessed at all.
  void load_masked(const UOp& u, const UOp& index) {
    std::vector<std::string> parts;
    parts.reserve(static_cast<size_t>(u.dtype().lanes()));
    for (int i = 0; i < u.dtype().lanes(); i++)
      parts.push_back(fmt::format("{} ? {}{} : {}", lane(u.src(2), i), element(index, i),
                                  u.dtype().is_bool() ? " != 0" : "", lane(u.src(1), i)));
    define(u, parts);
  }

  void load(const UOp& u) {
    const UOp& index = index_of_address(u.src(0));
    if (u.src().size() > 2) return load_masked(u, index);
    const std::vector<std::string> parts = read(u, index);
    if (!has_gate(index)) return define(u, parts);
    const std::string gate = value(gate_of(index));
    if (u.dtype().lanes() == 1)
      return define(u, {fmt::format("{} ? {} : {}", gate, parts[0], value(u.src(1)))});
    define(u, whole_or_lanes(u.src(1)));
    line(fmt::format("if ({}) {{", gate));
    depth_++;
    assign(texts_.at(u), u.dtype(), parts);
    depth_--;
    line("}");
  }

  void store(const UOp& u) {
    const UOp& index = index_of_address(u.src(0));
    const UOp &memory = storage_of(index), &what = u.src(1);
    const DType dtype = what.dtype();
    if (u.src().size() > 2) {
      for (int i = 0; i < dtype.lanes(); i++)
        line(fmt::format("if ({}) {} = {};", lane(u.src(2), i), element(index, i), lane(what, i)));
      return;
    }
    if (is_variable_.contains(memory)) return assign(value(memory), dtype, whole_or_lanes(what));
    if (dtype.lanes() > 1 && is_vector(dtype))
      return line(style_.write(c_type(style_, dtype), dtype, address(index), value(what)) + ";");
    for (int i = 0; i < dtype.lanes(); i++) line(fmt::format("{} = {};", element(index, i), lane(what, i)));
  }

  // ---- one instruction

  void elementwise(const UOp& u) {
    const int lanes = u.dtype().lanes();
    if (lanes > 1 && is_vector(u.dtype()) &&
        std::ranges::all_of(u.src(), [&](const UOp& s) { return is_vector(s.dtype()); })) {
      std::vector<std::string> operands;
      for (const UOp& s : u.src()) operands.push_back(value(s));
      if (const std::string text = c_vector_op(style_, u, operands); !text.empty()) return define(u, {text});
    }
    std::vector<std::string> parts;
    for (int i = 0; i < lanes; i++) {
      std::vector<std::string> operands;
      for (const UOp& s : u.src()) operands.push_back(lane(s, i));
      parts.push_back(c_op(style_, u, operands, helpers_));
    }
    if (lanes == 1 && uses_[u] <= 1 && parts[0].size() <= kMostInlined)
      texts_[u] = parts[0];
    else
      define(u, parts);
  }

  // A variable that a branch changes, where the condition holds for some lane.
  void rare(const UOp& u, const UOps& nodes) {
    define(u, whole_or_lanes(u.src(2)));
    const std::vector<std::string> condition = lanes_of(u.src(0));
    line(fmt::format("if ({}) {{", fmt::join(condition, " || ")));
    depth_++;
    for (const UOp& node : nodes) add(node);
    const std::string name = texts_.at(u);
    for (int i = 0; i < u.dtype().lanes(); i++) {
      const std::string to = lane_of(name, u.dtype(), i);
      line(condition.size() == 1
               ? fmt::format("{} = {};", to, lane(u.src(1), i))
               : fmt::format("if ({}) {} = {};", condition[static_cast<size_t>(i)], to, lane(u.src(1), i)));
    }
    depth_--;
    line("}");
  }

  void special(const UOp& u) {
    const std::string& name = u.arg().text();
    const bool is_group = name.starts_with("gidx"), is_thread = name.starts_with("lidx");
    if ((!is_group && !is_thread) || name.size() != 5 || name[4] < '0' || name[4] > '2')
      throw Error(fmt::format("kernel: SPECIAL {}: expected gidx0 to gidx2, or lidx0 to lidx2", name));
    const std::string_view how = style_.specials[is_group ? 0 : 1];
    if (how.empty()) throw Error(fmt::format("kernel: {} has no workgroups", style_.language));
    (is_group ? result_.groups : result_.threads).push_back(u);
    texts_[u] = name;
    line(fmt::format("{0} {1} = ({0}){2};", c_type(style_, u.dtype()), name,
                     fmt::format(fmt::runtime(how), name.substr(4))));
  }

  void add(const UOp& u) {
    switch (u.op()) {
      case Op::PARAM:
      case Op::DEFINE_LOCAL:
      case Op::DEFINE_REG: memory(u); return;
      case Op::DEFINE_VAR:
        result_.variables.push_back(u);
        texts_[u] = c_variable(u);
        return;
      case Op::SPECIAL: special(u); return;
      case Op::RANGE: {
        const std::string name = texts_[u] = fmt::format("r{}", loops_++);
        line(fmt::format("for ({0} {1} = 0; {1} < {2}; {1}++) {{", c_type(style_, u.dtype()), name,
                         value(u.src(0))));
        depth_++;
        return;
      }
      case Op::IF:
        line(fmt::format("if ({}) {{", value(u.src(0))));
        depth_++;
        return;
      case Op::END:
      case Op::ENDIF:
        depth_--;
        line("}");
        return;
      case Op::BARRIER:
        if (!style_.barrier.empty()) line(std::string(style_.barrier));
        return;
      case Op::INDEX: return;  // LOAD and STORE say it
      case Op::LOAD: load(u); return;
      case Op::STORE: store(u); return;
      case Op::VECTORIZE: {
        std::vector<std::string> parts;
        for (const UOp& s : u.src())
          for (int i = 0; i < s.dtype().lanes(); i++) parts.push_back(lane(s, i));
        define(u, parts);
        return;
      }
      case Op::GEP: {
        std::vector<std::string> parts;
        for (const int64_t i : u.arg().ints()) parts.push_back(lane(u.src(0), static_cast<int>(i)));
        if (parts.size() == 1)
          texts_[u] = parts[0];
        else
          define(u, parts);
        return;
      }
      default: break;
    }
    QUERN_CHECK(is_elementwise(u.op()), fmt::format("{}: {} in a program", style_.language, name(u.op())));
    if (u.dtype().is_ptr()) return;  // LOAD and STORE look through it
    if (const auto found = rare_.find(u); found != rare_.end()) return rare(u, found->second);
    elementwise(u);
  }

  const LinearProgram& program_;
  const CStyle& style_;
  CParts result_;
  CHelpers helpers_;
  NodeMap<int> uses_;
  NodeSet written_, is_variable_;
  std::unordered_map<UOp, UOps> rare_;  // WHEREs, and the nodes that wait until they are asked for
  NodeSet waits_;                       // these nodes
  std::unordered_map<UOp, std::string> texts_;
  size_t depth_ = 1;
  int names_ = 0, loops_ = 0;
};

}  // namespace

std::string c_variable(const UOp& variable) {
  return "var_" + identifier(variable.arg().variable().name).substr(2);
}

std::string c_type(const CStyle& style, DType dtype) {
  const std::string_view scalar = style.types[static_cast<int>(dtype.kind())];
  QUERN_CHECK(!scalar.empty(), fmt::format("{} has no type {}", style.language, dtype.name()));
  return dtype.lanes() == 1 ? std::string(scalar) : style.vector_type(style, dtype);
}

std::string c_memory_type(const CStyle& style, DType dtype) {
  return c_type(style, dtype.scalar().is_bool() ? dtypes::uint8 : dtype.scalar());
}

CParts render_c_parts(const LinearProgram& program, const CStyle& style) {
  return Renderer(program, style).run();
}

}  // namespace quern
