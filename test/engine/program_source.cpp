// Programs as C++ that a user could paste.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "test/engine/program.h"

namespace quern::program {
namespace {

std::string number_text(double number, DType dtype) {
  if (dtype.is_bool()) return number != 0 ? "true" : "false";
  if (!dtype.is_float()) return fmt::format("{:.0f}", number);
  const std::string text = fmt::format("{}", number);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

std::string list(const Ints& numbers) { return fmt::format("{{{}}}", fmt::join(numbers, ", ")); }

std::string element_name(DType dtype) {
  if (dtype.is_bool()) return "bool";
  if (dtype == dtypes::float32) return "float";
  if (dtype == dtypes::float64) return "double";
  return dtype.is_float() ? "float" : dtype.name() + std::string("_t");
}

std::string dtype_text(DType dtype) {
  return fmt::format("dtypes::{}", dtype.is_bool() ? "bool_" : std::string(dtype.name()));
}

std::string indices_text(const Ints& numbers) {
  std::vector<std::string> parts;
  for (size_t i = 0; i + 2 < numbers.size(); i += 3) {
    const int64_t start = numbers[i], stop = numbers[i + 1], step = numbers[i + 2];
    if (step == 0)
      parts.push_back(fmt::format("{}", start));
    else
      parts.push_back(
          fmt::format("Slice{{{}, {}, {}}}", start, stop < 0 ? "{}" : fmt::format("{}", stop), step));
  }
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

std::string input_text(const Instruction& in) {
  std::vector<std::string> values;
  for (const double v : in.data) {
    values.push_back(number_text(v, in.dtype));
    if (in.dtype == dtypes::float32 || in.dtype.bits() == 16) values.back() += in.dtype.is_float() ? "F" : "";
  }
  const std::string element = element_name(in.dtype);
  const bool same = in.dtype == dtypes::float32 || !in.dtype.is_float();
  return fmt::format("Tensor::from(std::vector<{}>{{{}}}, Shape{}, {{{}.device = \"INTERP\"}})", element,
                     fmt::join(values, ", "), list(in.numbers),
                     same ? "" : fmt::format(".dtype = {}, ", dtype_text(in.dtype)));
}

std::string call_text(const Instruction& in, const std::vector<Facts>& facts) {
  auto t = [&](size_t i) { return fmt::format("t{}", in.from[i]); };
  auto second = [&] { return in.from.size() > 1 ? t(1) : number_text(in.number, facts[in.from[0]].dtype); };
  auto number = [&](double v) { return number_text(v, facts[in.from[0]].dtype); };
  switch (in.call) {
    case Call::input: return input_text(in);
    case Call::full:
      return fmt::format("Tensor::full({}, {}, {{.dtype = {}}})", list(in.numbers),
                         number_text(in.number, in.dtype), dtype_text(in.dtype));
    case Call::unary: return fmt::format("{}.{}()", t(0), in.name);
    case Call::binary: return fmt::format("{}.{}({})", t(0), in.name, second());
    case Call::clamp: return fmt::format("{}.clamp({}, {})", t(0), number(-in.number), number(in.number));
    case Call::where: return fmt::format("{}.where({}, {})", t(0), t(1), t(2));
    case Call::cast: return fmt::format("{}.cast({})", t(0), dtype_text(in.dtype));
    case Call::reshape: return fmt::format("{}.reshape({})", t(0), list(in.numbers));
    case Call::expand: return fmt::format("{}.expand({})", t(0), list(in.numbers));
    case Call::permute: return fmt::format("{}.permute({})", t(0), list(in.numbers));
    case Call::flip: return fmt::format("{}.flip(Ints{})", t(0), list(in.numbers));
    case Call::pad: return fmt::format("{}.pad({}, \"constant\", {})", t(0), list(in.numbers), in.number);
    case Call::slice: return fmt::format("{}.at({})", t(0), indices_text(in.numbers));
    case Call::reduce: return fmt::format("{}.{}(Ints{}, {})", t(0), in.name, list(in.numbers), in.keepdim);
    case Call::scan: return fmt::format("{}.{}({})", t(0), in.name, in.numbers[0]);
    case Call::matmul: return fmt::format("{}.matmul({})", t(0), t(1));
    case Call::cat: {
      std::vector<std::string> parts;
      for (size_t i = 0; i < in.from.size(); i++) parts.push_back(t(i));
      return fmt::format("Tensor::cat({{{}}}, {})", fmt::join(parts, ", "), in.numbers[0]);
    }
    case Call::pick: return fmt::format("{}.at({{{}}})", t(0), t(1));
    case Call::contiguous: return fmt::format("{}.contiguous()", t(0));
    case Call::clone: return fmt::format("{}.clone()", t(0));
    case Call::assign: return fmt::format("{}.assign({})", t(0), second());
    case Call::set: return fmt::format("{}.set({}, {})", t(0), indices_text(in.numbers), second());
  }
  throw Error("no such call");
}

}  // namespace

std::string Program::source() const {
  std::vector<Facts> facts(this->list.size(), Facts{.shape = {}, .dtype = dtypes::float32});
  try {
    facts = facts_of(*this);
  } catch (const std::exception&) {  // one of the calls fails: dtypes of numbers may be printed wrong
  }
  std::string lines, outs;
  for (const size_t o : outputs) outs += fmt::format("{}t{}", outs.empty() ? "" : ", ", o);
  const std::string indent = keep_all ? "" : "  ";
  for (size_t i = 0; i < this->list.size(); i++)
    lines +=
        fmt::format("{}{}{};\n", indent, this->list[i].writes() ? "" : fmt::format("const Tensor t{} = ", i),
                    call_text(this->list[i], facts));
  if (keep_all) return fmt::format("{}Tensor::realize_all({{{}}});\n", lines, outs);
  return fmt::format(
      "const std::vector<Tensor> outputs = [] {{\n{}  return std::vector<Tensor>{{{}}};\n}}();\n"
      "Tensor::realize_all(outputs);\n",
      lines, outs);
}

}  // namespace quern::program
