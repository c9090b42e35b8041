// Checkpoints of PyTorch, made by PyTorch (data/make_torch.py), and pickles that want to do something.
#include "quern/io/torch.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "quern/io/npy.h"
#include "quern/io/strided.h"
#include "test/error_of.h"
#include "test/io/archive.h"

namespace quern::io {
namespace {

using testing::HasSubstr;

TEST(Torch, ACheckpointOfPyTorch) {
  const StateDict loaded = torch_load("test/io/data/checkpoint.pt");
  const StateDict expected = npz_load("test/io/data/checkpoint.npz");
  std::vector<std::string> names, wanted;
  for (const auto& [name, t] : loaded) names.push_back(name);
  for (const auto& [name, t] : expected) wanted.push_back(name);
  ASSERT_EQ(names, wanted);
  for (const auto& [name, tensor] : loaded) {
    const Tensor want = expected.at(name);
    EXPECT_EQ(shape_text(tensor.shape()), shape_text(want.shape())) << name;
    EXPECT_EQ(tensor.cast(want.dtype()).bytes(), want.bytes()) << name;
  }
  EXPECT_EQ(loaded.at("dtypes.bfloat16").dtype(), dtypes::bfloat16);
  EXPECT_EQ(loaded.at("dtypes.float8_e4m3fn").dtype(), dtypes::fp8e4m3);
  EXPECT_EQ(loaded.at("model.0.weight").dtype(), dtypes::float32);
}

TEST(Torch, SharedMemoryIsShared) {
  const StateDict loaded = torch_load("test/io/data/checkpoint.pt");
  const Tensor whole = loaded.at("views.whole"), rows = loaded.at("views.rows");
  const float before = rows.at({0, 0}).item<float>();
  whole.assign(whole + 100);
  EXPECT_EQ(rows.at({0, 0}).item<float>(), before + 100);
}

TEST(Torch, AFileOfOneTensor) {
  const StateDict loaded = torch_load("test/io/data/tensor.pt");
  ASSERT_EQ(loaded.size(), 1U);
  EXPECT_EQ(shape_text(loaded.at("").shape()), "(6, 4)");
}

// A text of what is nested, as Python would write it.
std::string written(const TorchValues& all, size_t at) {
  if (const auto* items = std::get_if<TorchItems>(&all[at])) {
    std::vector<std::string> parts;
    parts.reserve(items->items.size());
    for (const uint32_t i : items->items) parts.push_back(written(all, i));
    constexpr std::array<const char*, 5> kNames = {"list", "tuple", "set", "frozenset", "dict"};
    return fmt::format("{}({})", kNames[static_cast<size_t>(items->kind)], fmt::join(parts, ", "));
  }
  if (const auto* t = std::get_if<Tensor>(&all[at])) return "tensor" + shape_text(t->shape());
  if (const auto* text = std::get_if<std::string>(&all[at])) return "'" + *text + "'";
  if (const auto* bytes = std::get_if<TorchBytes>(&all[at])) return "b'" + bytes->bytes + "'";
  if (const auto* number = std::get_if<int64_t>(&all[at])) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&all[at])) return fmt::format("{}", *number);
  if (const auto* yes = std::get_if<bool>(&all[at])) return *yes ? "True" : "False";
  if (const auto* dtype = std::get_if<DType>(&all[at])) return std::string(dtype->name());
  return "None";
}
std::string written(const TorchValues& all) { return written(all, all.size() - 1); }

TEST(Torch, WhatWasSavedIsNestedAsItWas) {
  EXPECT_EQ(written(torch_load_nested("test/io/data/tensor.pt")), "tensor(6, 4)");
  const std::string all = written(torch_load_nested("test/io/data/checkpoint.pt"));
  EXPECT_THAT(all, testing::StartsWith("dict('model', dict('0.weight', tensor(4, 3), '0.bias', tensor(4,)"));
  EXPECT_THAT(all, HasSubstr("'tied', list(tensor(3, 2), tensor(3, 2), tuple(tensor(2, 3)))"));
  EXPECT_THAT(all,
              testing::EndsWith("7, tensor(1,), 'epoch', 3, 'loss', 0.25, 'name', 'a text', 'nothing', None, "
                                "'yes', True, 'size', tuple(1, 2), 'device', 'cpu', 'dtype', float32, "
                                "'large', 1099511627776, 'negative', -5, 'set', set(1, 2))"));
}

// ---- Any strides

std::vector<float> by_hand(int64_t offset, const std::vector<int64_t>& sizes,
                           const std::vector<int64_t>& strides) {
  std::vector<int64_t> places{offset};
  for (size_t a = 0; a < sizes.size(); a++) {
    std::vector<int64_t> next;
    for (const int64_t p : places)
      for (int64_t i = 0; i < sizes[a]; i++) next.push_back(p + i * strides[a]);
    places = next;
  }
  return {places.begin(), places.end()};  // memory[i] is i
}

TEST(Strided, AllViews) {
  const Tensor memory = Tensor::arange(24).f32().contiguous().realize();
  using Numbers = std::vector<int64_t>;
  const std::vector<std::tuple<int64_t, Numbers, Numbers>> cases = {
      {0, {24}, {1}},
      {3, {}, {}},
      {0, {4, 6}, {6, 1}},
      {0, {6, 4}, {1, 6}},
      {1, {2, 3}, {12, 2}},
      {0, {4}, {7}},
      {23, {1, 1}, {99, 99}},
      {2, {2, 3}, {0, 1}},
      {2, {3, 2}, {1, 0}},
      {0, {11, 4}, {2, 1}},
      {0, {4, 4}, {1, 1}},
      {0, {2, 3, 4}, {1, 8, 2}},
      {5, {3, 2, 2}, {6, 1, 3}},
      {0, {0, 3}, {3, 1}},
      {100, {0}, {1}},
      {1, {3, 3}, {7, 1}},
      {0, {2, 2, 2}, {12, 6, 5}},
      {0, {3, 2}, {5, 8}},
  };
  for (const auto& [offset, sizes, strides] : cases)
    EXPECT_EQ(strided(memory, offset, sizes, strides).to_vector<float>(), by_hand(offset, sizes, strides))
        << fmt::format("{} ({}) ({})", offset, fmt::join(sizes, ","), fmt::join(strides, ","));
}

TEST(StridedErrors, LeavingTheMemory) {
  const Tensor memory = Tensor::arange(24);
  using Numbers = std::vector<int64_t>;
  const int64_t huge = std::numeric_limits<int64_t>::max();
  const std::vector<std::tuple<int64_t, Numbers, Numbers, std::string>> cases = {
      {1, {24}, {1}, "leaves it"},
      {24, {}, {}, "leaves it"},
      {huge, {1}, {1}, "leaves it"},
      {-1, {2}, {1}, "begins before it"},
      {0, {2}, {24}, "leaves it"},
      {0, {2}, {huge}, "leaves it"},
      {0, {2, 2, 2}, {huge, huge, huge}, "leaves it"},
      {0, {-1}, {1}, "negative"},
      {0, {2}, {-1}, "negative"},
      {0, {huge}, {0}, "too large"},
      {0, {1 << 30, 1 << 30}, {0, 0}, "too large"},
      {0, {2, 2}, {1}, "as many sizes"},
      {0, Numbers(65, 1), Numbers(65, 1), "as many sizes"},
  };
  for (const auto& [offset, sizes, strides, says] : cases)
    EXPECT_THAT(error_of<ShapeError>([&] { strided(memory, offset, sizes, strides); }), HasSubstr(says));
}

// ---- Pickles

// An archive with this pickle and memory of eight bytes.
std::string archive(const std::string& pickle, const std::string& order = "little") {
  return zip_of(
      {{"archive/data.pkl", pickle}, {"archive/byteorder", order}, {"archive/data/0", std::string(8, '\1')}});
}
std::string wrong_torch(const std::string& file) {
  return error_in(file,
                  [](auto bytes, const auto& name, const auto& keep) { torch_parse(bytes, name, keep); });
}
std::string text(const std::string& text) {
  return Draft().text("X").put(static_cast<uint32_t>(text.size())).text(text).str();
}
std::string storage(const std::string& type = "torch\nByteStorage", const std::string& elements = "K\10",
                    const std::string& key = "0", const std::string& kind = "storage") {
  return "(" + text(kind) + "c" + type + "\n" + text(key) + text("cpu") + elements + "tQ";
}
std::string tensor(const std::string& from = storage(), const std::string& offset = "K\2",
                   const std::string& sizes = "K\3\x85", const std::string& strides = "K\2\x85") {
  return "ctorch._utils\n_rebuild_tensor_v2\n(" + from + offset + sizes + strides + "\x89" + "}tR";
}
std::string pickle(const std::string& inside) { return "\x80\2" + inside + "."; }

TEST(Torch, APickleWrittenByHand) {
  const Memory memory(archive(pickle("}" + text("x") + tensor() + "s")));
  const StateDict all = torch_parse(memory.span(), "f", memory.bytes);
  EXPECT_EQ(all.at("x").to_vector<uint8_t>(), (std::vector<uint8_t>{1, 1, 1}));
  EXPECT_EQ(wrong_torch(archive(pickle("N"))), "");
  EXPECT_EQ(wrong_torch(archive(pickle("ccollections\nOrderedDict\n)R}bK\1K\2s"))), "");
}

std::string nested(const std::string& inside) {
  const Memory memory(archive(pickle(inside)));
  return written(torch_parse_nested(memory.span(), "f", memory.bytes));
}

TEST(Torch, ValuesOfPicklesWrittenByHand) {
  EXPECT_EQ(nested("}N\x88s"), "dict(None, True)");
  EXPECT_EQ(nested("}K\1K\2\x86K\3s"), "dict(tuple(1, 2), 3)");
  EXPECT_EQ(nested("}(K\1\x91K\3s"), "dict(frozenset(1), 3)");
  EXPECT_EQ(nested("cbuiltins\nfrozenset\n]K\1a\x85R"), "frozenset(1)");
  EXPECT_EQ(nested("c_codecs\nencode\n" + text("a\xc3\xbf") + text("latin1") + "\x86R"), "b'a\xff'");
  EXPECT_EQ(nested("ctorch\ndevice\n" + text("cuda") + "K\1\x86R"), "'cuda:1'");
  EXPECT_EQ(nested("ctorch\nTensor\n"), "'torch.Tensor'");
  EXPECT_EQ(nested(storage("torch\nShortStorage", "K\4")), "tensor(4,)");
  EXPECT_EQ(nested(storage("torch.storage\nUntypedStorage")), "tensor(8,)");
}

TEST(Torch, OneObjectIsOneValueHoweverOftenItIsNamed) {
  std::string inside = "]";
  for (int i = 0; i < 40; i++) inside += "q\1]h\1ah\1a";
  const Memory memory(archive(pickle(inside)));
  EXPECT_EQ(torch_parse_nested(memory.span(), "f", memory.bytes).size(), 41U);
  std::string often = "]" + text("a") + "q\1a(";
  for (int i = 0; i < 1000; i++) often += "h\1";
  EXPECT_EQ(wrong_torch(archive(pickle(often + "e"))), "");
}

TEST(TorchErrors, NothingElseIsCalled) {
  EXPECT_THAT(wrong_torch(archive(pickle("cos\nsystem\n" + text("touch /tmp/x") + "\x85R"))),
              HasSubstr("'os.system'"));
  EXPECT_THAT(wrong_torch(archive(pickle("cbuiltins\neval\n"))), HasSubstr("asks for 'builtins.eval'"));
  EXPECT_THAT(wrong_torch(archive(pickle(text("posix") + text("system") + "\x93"))),
              HasSubstr("'posix.system'"));
  EXPECT_THAT(wrong_torch(archive(pickle("ctorch\nload\n"))), HasSubstr("'torch.load'"));
  EXPECT_THAT(wrong_torch(archive(pickle("ctorch.\nFloatStorage\n"))), HasSubstr("'torch..FloatStorage'"));
}

TEST(TorchErrors, Pickles) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "cut off"},
      {"\x80", "cut off"},
      {"\x80\2", "cut off"},
      {"\x80\2.", "takes what is not there"},
      {"\x80\1N.", "protocol 1"},
      {"\x80\6N.", "protocol 6"},
      {"I1\n.", "older than protocol 2"},
      {pickle("0"), "takes what is not there"},
      {pickle("N(."), "takes what is not there"},
      {pickle("t"), "up to a mark"},
      {pickle("N\x86"), "takes what is not there"},
      {pickle(std::string("h\0", 2)), "which is empty"},
      {pickle("NNa"), "treats a None as a list"},
      {pickle("}(K\1u"), "a key without a value"},
      {pickle("NNR"), "calls a None"},
      {pickle("ctorch\nSize\nNR"), "with no tuple"},
      {pickle("K\1K\2\x93"), "a int as a name"},
      {pickle("I1\n"), "code 0x49"},
      {pickle("\x8a\11" + std::string(9, '\0')), "an integer of 9 bytes"},
      {pickle("\x8b\xff\xff\xff\xff"), "an integer of 4294967295 bytes"},
      {pickle("X\xff\xff\xff\xff"), "cut off"},
      {pickle("\x8d" + std::string(8, '\xff')), "cut off"},
      {pickle("cno end"), "cut off"},
      {pickle("]\x94j" + std::string("\0\0\0\0", 4) + "a"), "'0' contains itself"},
      {pickle("}\x94" + text("a") + "j" + std::string("\0\0\0\0", 4) + "s"), "'a' contains itself"},
      {pickle(std::string(100, ']') + std::string(99, 'a')), "too deeply"},
      {pickle("}" + tensor() + "K\1s"), "has a call as a key"},
      {pickle("}" + text("a.b") + tensor() + "s" + text("a") + "}" + text("b") + tensor() + "ss"),
       "two tensors 'a.b'"},
      {pickle("ccollections\nOrderedDict\n]K\1a\x85R"), "no pairs"},
      {pickle("}" + text("a") + "}]K\1ss"), "the dictionary 'a' has a list as a key"},
      {pickle("}]\x85K\1s"), "has a tuple as a key"},
      {pickle("}NK\1s"), "neither a text nor an integer"},
      {pickle("cbuiltins\nset\n]]a\x85R"), "the set '' has a list as a key"},
      {pickle("cbuiltins\nset\nK\1\x85R"), "a set of a int"},
      {pickle("cbuiltins\nint\n)R"), "is made by 'builtins.int'"},
      {pickle("c_codecs\nencode\n" + text("\xc4\x80") + "\x85R"), "no characters of Latin-1"},
  };
  for (const auto& [bytes, says] : cases)
    EXPECT_THAT(wrong_torch(archive(bytes)), HasSubstr(says)) << testing::PrintToString(bytes);
}

// Lists of lists of the same lists: few bytes, more names than atoms.
TEST(TorchErrors, ListsThatContainEachOtherOften) {
  std::string inside = "]";
  for (int i = 0; i < 40; i++) inside += "q\1]h\1ah\1a";
  EXPECT_THAT(wrong_torch(archive(pickle(inside))), HasSubstr("too often"));
}

// Many sets of one list would be as large as the square of their pickle.
TEST(TorchErrors, AListThatIsCopiedOften) {
  std::string inside = "](" + std::string(1000, 'N') + "e\x85q\1cbuiltins\nset\nq\2";
  for (int i = 0; i < 1000; i++) inside += "h\2h\1R0";
  EXPECT_THAT(wrong_torch(archive(pickle(inside))), HasSubstr("copies its lists too often"));
}

TEST(TorchErrors, ATextThatIsCopiedOften) {
  std::string inside = "(" + text(std::string(10000, 'x')) + "\x85q\1c_codecs\nencode\nq\2";
  for (int i = 0; i < 1000; i++) inside += "h\2h\1R";
  EXPECT_THAT(wrong_torch(archive(pickle(inside + "t"))), HasSubstr("copies a text too often"));
}

// Shallow values may refer to others, and be deep together.
TEST(TorchErrors, DepthThroughTheMemory) {
  std::string inside = "(]q\1";
  for (int i = 0; i < 10; i++) inside += std::string(10, ']') + "h\1" + std::string(10, 'a') + "q\1";
  EXPECT_THAT(wrong_torch(archive(pickle(inside + "t"))), HasSubstr("too deeply"));
}

TEST(TorchErrors, Tensors) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {tensor(storage(), "K\4"), "leaves it"},
      {tensor(storage(), "J\xff\xff\xff\xff"), "begins before it"},
      {tensor(storage(), "N"), "value 1 is a None, expected a int"},
      {tensor("N"), "value 0 is a None, expected a persistent"},
      {tensor(storage(), "K\1", "K\3"), "expected a tuple"},
      {tensor(storage(), "K\2", "N\x85"), "expected a int"},
      {tensor(storage(), "K\2", "K\3\x85", ")"), "as many sizes"},
      {tensor(storage("torch\nByteStorage", "K\11")), "has 8 bytes, 9 elements of uint8 are expected"},
      {tensor(storage("torch\nLongStorage", "K\2")), "2 elements of int64"},
      {tensor(storage("torch\nByteStorage", "J\xff\xff\xff\xff")), "-1 elements"},
      {tensor(storage("torch\nByteStorage", "K\10", "1")), "there is no archive/data/1"},
      {tensor(storage("torch\nByteStorage", "K\10", "../data.pkl")), "there is no"},
      {tensor(storage("torch\nByteStorage", "K\10", "0", "module")), "is of a 'module'"},
      {tensor(storage("torch\nSize")), "has memory of 'torch.Size'"},
      {tensor(storage("torch.storage\nUntypedStorage")), "has memory of"},
      {"ctorch._utils\n_rebuild_tensor_v2\n)R", "is made from 0 values"},
      {"ctorch._utils\n_rebuild_parameter\nN\x85R", "expected a call"},
      {"ctorch._utils\n_rebuild_parameter\nctorch\nSize\n)R\x85R", "is made by 'torch.Size'"},
  };
  for (const auto& [bytes, says] : cases)
    EXPECT_THAT(wrong_torch(archive(pickle(bytes))), HasSubstr(says)) << testing::PrintToString(bytes);
}

TEST(TorchErrors, Files) {
  EXPECT_THAT(wrong_torch(archive(pickle("N"), "big")), HasSubstr("not little endian"));
  EXPECT_THAT(wrong_torch("\x80\2\x8a\n"), HasSubstr("before 1.6"));
  EXPECT_THAT(wrong_torch(""), HasSubstr("0 bytes"));
  EXPECT_THAT(error_of([] { torch_load("test/io/data/blocks.npz"); }), HasSubstr("no data.pkl"));
  const std::string whole = archive(pickle(tensor()));
  for (size_t n = 0; n < whole.size(); n++) EXPECT_NE(wrong_torch(whole.substr(0, n)), "") << n;
}

}  // namespace
}  // namespace quern::io
