#include "test/engine/program.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "quern/ir/node/const.h"

namespace quern::program {
namespace {

using Tensors = std::vector<Tensor>;

template <class Function>
struct Named {
  const char* name;
  Function call;
};
template <class Function, size_t n>
Function named(const Named<Function> (&table)[n], const std::string& name) {
  for (const auto& [its, call] : table)
    if (name == its) return call;
  throw Error("no call has the name " + name);
}

constexpr Named<Tensor (Tensor::*)() const> kUnary[] = {
    {"neg", &Tensor::neg},         {"abs", &Tensor::abs},   {"square", &Tensor::square},
    {"relu", &Tensor::relu},       {"sign", &Tensor::sign}, {"logical_not", &Tensor::logical_not},
    {"sigmoid", &Tensor::sigmoid}, {"sin", &Tensor::sin},   {"tanh", &Tensor::tanh}};
constexpr Named<Tensor (Tensor::*)(const Operand&) const> kBinary[] = {{"add", &Tensor::add},
                                                                       {"sub", &Tensor::sub},
                                                                       {"mul", &Tensor::mul},
                                                                       {"lt", &Tensor::lt},
                                                                       {"maximum", &Tensor::maximum},
                                                                       {"minimum", &Tensor::minimum},
                                                                       {"ge", &Tensor::ge},
                                                                       {"eq", &Tensor::eq},
                                                                       {"ne", &Tensor::ne},
                                                                       {"mod", &Tensor::mod},
                                                                       {"floordiv", &Tensor::floordiv},
                                                                       {"bitwise_xor", &Tensor::bitwise_xor}};
constexpr Named<Tensor (Tensor::*)(const Axes&, bool) const> kReduce[] = {{"max", &Tensor::max},
                                                                          {"min", &Tensor::min},
                                                                          {"any", &Tensor::any},
                                                                          {"all", &Tensor::all},
                                                                          {"mean", &Tensor::mean}};
constexpr Named<Tensor (Tensor::*)(int64_t) const> kScan[] = {{"cumsum", &Tensor::cumsum}};

Shape shape_of(const Ints& sizes) { return Shape(sizes.begin(), sizes.end()); }

std::vector<Index> indices_of(const Ints& numbers) {
  std::vector<Index> indices;
  for (size_t i = 0; i + 2 < numbers.size(); i += 3) {
    // A stop of -1 with a negative step: down to the first.
    const int64_t start = numbers[i], stop = numbers[i + 1], step = numbers[i + 2];
    if (step == 0)
      indices.emplace_back(start);
    else
      indices.emplace_back(Slice{Dim(start), stop < 0 ? std::optional<Dim>{} : Dim(stop), step});
  }
  return indices;
}

Operand number_for(double number, DType dtype) {
  if (dtype.is_float()) return number;
  if (dtype.is_bool()) return number != 0;
  return static_cast<int64_t>(number);
}

Tensor from_numbers(const std::vector<double>& data, const Ints& shape, DType dtype,
                    const std::string& device) {
  std::vector<std::byte> bytes(data.size() * static_cast<size_t>(dtype.bytes()));
  for (size_t i = 0; i < data.size(); i++) {
    const uint64_t bits =
        to_bits(convert(make_const(dtypes::float64, data[i]), dtypes::float64, dtype), dtype);
    std::memcpy(bytes.data() + i * static_cast<size_t>(dtype.bytes()), &bits,
                static_cast<size_t>(dtype.bytes()));
  }
  return Tensor::from_bytes(bytes.data(), bytes.size(), shape_of(shape), dtype, device);
}

// Tensors that are made without saying where are there, until the end of a scope.
struct DefaultDevice {
  explicit DefaultDevice(const std::string& name) { set_default_device(name); }
  DefaultDevice(const DefaultDevice&) = delete;
  DefaultDevice& operator=(const DefaultDevice&) = delete;
  ~DefaultDevice() { set_default_device(""); }
};

Tensor execute(const Instruction& in, const Tensors& values, bool wide, const std::string& device) {
  const DType dtype = wide && in.dtype == dtypes::float32 ? dtypes::float64 : in.dtype;
  auto from = [&](size_t i) -> const Tensor& { return values[in.from.at(i)]; };
  auto second = [&]() -> Operand {
    if (in.from.size() > 1) return from(1);
    return number_for(in.number, from(0).dtype());
  };
  switch (in.call) {
    case Call::input: return from_numbers(in.data, in.numbers, dtype, device);
    case Call::full:
      return Tensor::full(shape_of(in.numbers), number_for(in.number, dtype), {.dtype = dtype});
    case Call::unary: return (from(0).*named(kUnary, in.name))();
    case Call::binary: return (from(0).*named(kBinary, in.name))(second());
    case Call::clamp:
      return from(0).clamp(number_for(-in.number, from(0).dtype()), number_for(in.number, from(0).dtype()));
    case Call::where: return from(0).where(from(1), from(2));
    case Call::cast: return from(0).cast(dtype);
    case Call::reshape: return from(0).reshape(shape_of(in.numbers));
    case Call::expand: return from(0).expand(shape_of(in.numbers));
    case Call::permute: return from(0).permute(in.numbers);
    case Call::flip: return from(0).flip(in.numbers);
    case Call::pad: return from(0).pad(in.numbers, "constant", in.number);
    case Call::slice: return from(0).at(indices_of(in.numbers));
    case Call::reduce:
      if (in.name == "sum") return from(0).sum(in.numbers, in.keepdim);
      if (in.name == "prod") return from(0).prod(in.numbers, in.keepdim);
      return (from(0).*named(kReduce, in.name))(in.numbers, in.keepdim);
    case Call::scan: return (from(0).*named(kScan, in.name))(in.numbers.at(0));
    case Call::matmul: return from(0).matmul(from(1));
    case Call::cat: {
      Tensors parts;
      for (size_t i = 0; i < in.from.size(); i++) parts.push_back(from(i));
      return Tensor::cat(parts, in.numbers.at(0));
    }
    case Call::pick: return from(0).at({from(1)});
    case Call::contiguous: return from(0).contiguous();
    case Call::clone: return from(0).clone();
    case Call::assign: return from(0).assign(second());
    case Call::set: return from(0).set(indices_of(in.numbers), second());
  }
  throw Error("no such call");
}

std::vector<double> numbers_in(const std::vector<std::byte>& bytes, DType dtype) {
  const auto size = static_cast<size_t>(dtype.bytes());
  std::vector<double> values;
  for (size_t at = 0; at < bytes.size(); at += size) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + at, size);
    values.push_back(convert(from_bits(bits, dtype), dtype, dtypes::float64).as_float());
  }
  return values;
}

// ---- How large values and their errors can be. eps is twice the unit roundoff of float32, which leaves room
// for the products of errors that are left out.

constexpr double kEps = 0x1p-23;

void estimate(const Instruction& in, const std::vector<Facts>& all, Facts& f) {
  auto most = [&](size_t i) { return i < in.from.size() ? all[in.from[i]].most : std::abs(in.number); };
  auto error = [&](size_t i) { return i < in.from.size() ? all[in.from[i]].error : 0; };
  const double m = in.from.empty() ? 0 : most(0), e = error(0), reached = m + e;
  double n = 1;
  if (!in.from.empty()) {
    const Ints& sizes = all[in.from[0]].shape;
    if (in.call == Call::reduce || in.call == Call::scan)
      for (const int64_t axis : in.numbers) n *= static_cast<double>(sizes[static_cast<size_t>(axis)]);
    if (in.call == Call::matmul) n = static_cast<double>(sizes.back());
  }
  f.most = m, f.error = e;
  switch (in.call) {
    case Call::input:
      for (const double v : in.data) f.most = std::max(f.most, std::abs(v));
      break;
    case Call::full: f.most = std::abs(in.number); break;
    case Call::unary:
      if (in.name == "square") f.most = m * m, f.error = 2 * m * e + e * e + kEps * m * m;
      if (in.name == "sigmoid" || in.name == "sin" || in.name == "tanh") f.most = 1, f.error = e + 8 * kEps;
      if (in.name == "sign" || in.name == "logical_not") f.most = 1, f.error = 0;
      break;
    case Call::binary:
      if (in.name == "add" || in.name == "sub")
        f.most = m + most(1), f.error = e + error(1) + kEps * f.most;
      else if (in.name == "mul")
        f.most = m * most(1), f.error = reached * error(1) + most(1) * e + kEps * f.most;
      else if (in.name == "bitwise_xor")
        f.most = 2 * std::max(m, most(1)) + 2;
      else
        f.most = std::max({m, most(1), 1.0}), f.error = std::max(e, error(1));
      break;
    case Call::clamp: f.most = std::min(m, in.number); break;
    case Call::where: f.most = std::max(most(1), most(2)), f.error = std::max(error(1), error(2)); break;
    case Call::pad: f.most = std::max(m, std::abs(in.number)); break;
    case Call::scan: f.most = n * m, f.error = n * e + n * n * kEps * m; break;
    case Call::reduce:
      if (in.name == "sum") f.most = n * m, f.error = n * e + n * n * kEps * m;
      if (in.name == "mean") f.error = e + (n + 1) * kEps * m;
      if (in.name == "prod")
        f.most = std::max(1.0, std::pow(m, n)),
        f.error = n * (e + kEps * m) * std::pow(std::max(1.0, reached), n);
      break;
    case Call::matmul:
      f.most = n * m * most(1);
      f.error = n * (reached * error(1) + most(1) * e) + n * (n + 1) * kEps * m * most(1);
      break;
    case Call::cat:
      for (size_t i = 0; i < in.from.size(); i++)
        f.most = std::max(f.most, most(i)), f.error = std::max(f.error, error(i));
      break;
    default: break;
  }
  if (f.dtype.is_bool()) f.most = 1;
  if (!f.dtype.is_float()) f.error = 0;
}

bool is_view(const Instruction& in, const Facts& source, const Facts& result) {
  switch (in.call) {
    case Call::reshape:
    case Call::expand:
    case Call::permute:
    case Call::flip:
    case Call::slice:
    case Call::contiguous: return true;
    case Call::cast: return source.dtype == result.dtype;
    default: return false;
  }
}

bool keeps_places(const Instruction& in) {
  switch (in.call) {
    case Call::reshape:
    case Call::permute:
    case Call::flip:
    case Call::slice:
    case Call::cast: return true;
    default: return false;
  }
}

}  // namespace

int64_t Facts::elements() const {
  int64_t n = 1;
  for (const int64_t s : shape) n *= s;
  return n;
}

void Building::add(const Instruction& in) {
  const DefaultDevice on("INTERP");
  tensors_.push_back(execute(in, tensors_, false, "INTERP"));
  Facts f{.shape = tensors_.back().uop().int_shape(), .dtype = tensors_.back().dtype()};
  f.owner = facts_.size();
  if (in.writes()) {
    Facts& target = facts_[in.from[0]];
    const Facts value = in.from.size() > 1 ? facts_[in.from[1]] : Facts{.most = std::abs(in.number)};
    const size_t owner = target.owner;
    f = target;
    f.writable = false;
    facts_.push_back(f);
    for (Facts& seen : facts_)
      if (seen.owner == owner)
        seen.most = std::max(seen.most, value.most), seen.error = std::max(seen.error, value.error);
    return;
  }
  estimate(in, facts_, f);
  f.memory = in.call == Call::input || in.call == Call::clone;
  f.writable = true;
  if (!in.from.empty() && is_view(in, facts_[in.from[0]], f)) {
    const Facts& source = facts_[in.from[0]];
    f.owner = source.owner;
    f.memory = source.memory;
    f.writable = source.writable && keeps_places(in);
    f.unsure = in.call == Call::contiguous && !source.memory;
  }
  facts_.push_back(f);
}

void Building::undo() {
  tensors_.pop_back();
  facts_.pop_back();
}

bool Building::is_unsure(size_t i) const {
  return std::ranges::any_of(facts_, [&](const Facts& f) { return f.owner == facts_[i].owner && f.unsure; });
}

std::vector<Facts> facts_of(const Program& program) {
  Building building;
  std::vector<Facts> facts;
  for (const Instruction& in : program.list) building.add(in);
  for (size_t i = 0; i < program.list.size(); i++) facts.push_back(building[i]);
  return facts;
}

Run run(const Program& program, How how) {
  const std::string device = how == How::lazily ? program.device : "INTERP";
  const DefaultDevice on(device);
  Tensors values;
  for (const Instruction& in : program.list) {
    values.push_back(execute(in, values, how == How::eagerly_in_float64, device));
    if (how != How::lazily) values.back().realize();
  }
  std::vector<size_t> looked_at = program.outputs;
  if (program.keep_all)
    for (size_t i = 0; i < values.size(); i++) looked_at.push_back(i);
  if (how == How::lazily) {
    Tensors outputs;
    for (const size_t i : program.outputs) outputs.push_back(values[i]);
    if (!program.keep_all) {
      std::vector<std::optional<Tensor>> kept(values.size());
      for (const size_t i : program.outputs) kept[i] = values[i];
      const Tensor none = outputs.front();
      values.clear();
      for (const auto& k : kept) values.push_back(k.value_or(none));
    }
    Tensor::realize_all(outputs);
  }
  Run result;
  result.values.resize(values.size()), result.bytes.resize(values.size());
  for (const size_t i : looked_at) {
    result.bytes[i] = values[i].bytes();
    result.values[i] = numbers_in(result.bytes[i], values[i].dtype());
  }
  return result;
}

}  // namespace quern::program
