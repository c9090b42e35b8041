// What the printer and the parser of IR text agree on. The grammar is in docs/ir-text.md.
#pragma once

#include <string_view>

#include "quern/ir/node/uop.h"

namespace quern::notation {

// Infix operators and how tightly they bind, as in Python: a higher level binds tighter.
struct Infix {
  std::string_view sign;
  Op op;
  int level;
};
inline constexpr Infix kInfix[] = {
    {"==", Op::CMPEQ, 1},    {"!=", Op::CMPNE, 1},   {"<", Op::CMPLT, 1}, {"<=", Op::CMPLE, 1},
    {"|", Op::OR, 2},        {"^", Op::XOR, 3},      {"&", Op::AND, 4},   {"<<", Op::SHL, 5},
    {">>", Op::SHR, 5},      {"+", Op::ADD, 6},      {"*", Op::MUL, 7},   {"/", Op::FDIV, 7},
    {"//", Op::FLOORDIV, 7}, {"%", Op::FLOORMOD, 7},
};
inline constexpr int kLoosest = 0, kComparisons = 1, kSums = 6, kUnary = 8, kTightest = 9;
const Infix* infix(Op op);  // none: nullptr

// Elementwise ops that are written as functions, and checked as the infix ones are.
struct Function {
  std::string_view name;
  Op op;
};
inline constexpr Function kFunctions[] = {{"max", Op::MAX},
                                          {"min", Op::MIN},
                                          {"where", Op::WHERE},
                                          {"truncdiv", Op::TRUNCDIV},
                                          {"truncmod", Op::TRUNCMOD}};
const Function* function(Op op);  // none: nullptr

// The dtype that OP(...) has when none is written: as the sources say, void where they say nothing.
DType default_dtype(Op op, Sources sources, const Arg& arg);

// The operands of an elementwise op that share one dtype: a literal among them takes it from the others.
Sources alike(Op op, Sources operands);

bool is_value(Const value, DType dtype);  // can a literal of the dtype say it?
bool is_literal(const UOp& u);            // a constant of nothing but such a value, and maybe a tag
bool divides_by_zero(Op op, Sources operands);

// Does $n[0..4], or r0[16], say all there is to say of the node but its tag?
bool is_variable(const UOp& u);
bool is_range(const UOp& u);

bool is_word(std::string_view text);  // letters, digits and '_', not a digit first

}  // namespace quern::notation
