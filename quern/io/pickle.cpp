#include "quern/io/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <unordered_map>

namespace quern::io {
namespace {

using Kind = Pickled::Kind;

// The bytes that pickles are made of, by the names that Python gives them.
enum Code : uint8_t {
  MARK = '(',
  STOP = '.',
  POP = '0',
  POP_MARK = '1',
  DUP = '2',
  BINFLOAT = 'G',
  BININT = 'J',
  BININT1 = 'K',
  BININT2 = 'M',
  NONE = 'N',
  BINPERSID = 'Q',
  REDUCE = 'R',
  BINSTRING = 'T',
  SHORT_BINSTRING = 'U',
  BINUNICODE = 'X',
  APPEND = 'a',
  BUILD = 'b',
  GLOBAL = 'c',
  DICT = 'd',
  EMPTY_DICT = '}',
  APPENDS = 'e',
  BINGET = 'h',
  LONG_BINGET = 'j',
  LIST = 'l',
  EMPTY_LIST = ']',
  BINPUT = 'q',
  LONG_BINPUT = 'r',
  SETITEM = 's',
  TUPLE = 't',
  EMPTY_TUPLE = ')',
  SETITEMS = 'u',
  BINBYTES = 'B',
  SHORT_BINBYTES = 'C',
  PROTO = 0x80,
  NEWOBJ = 0x81,
  TUPLE1 = 0x85,
  TUPLE2 = 0x86,
  TUPLE3 = 0x87,
  NEWTRUE = 0x88,
  NEWFALSE = 0x89,
  LONG1 = 0x8a,
  LONG4 = 0x8b,
  SHORT_BINUNICODE = 0x8c,
  BINUNICODE8 = 0x8d,
  BINBYTES8 = 0x8e,
  EMPTY_SET = 0x8f,
  ADDITEMS = 0x90,
  FROZENSET = 0x91,
  STACK_GLOBAL = 0x93,
  MEMOIZE = 0x94,
  FRAME = 0x95,
};

class Machine {
 public:
  Machine(ByteReader& in, bool (*is_allowed)(const std::string& global)) : in_(in), is_allowed_(is_allowed) {}

  Pickle run() {
    if (in_.number<uint8_t>("a pickle") != PROTO) in_.refuse("its pickle is older than protocol 2");
    const auto protocol = in_.number<uint8_t>("a pickle");
    if (protocol < 2 || protocol > 5) in_.refuse(fmt::format("a pickle of protocol {}", protocol));
    for (;;) {
      const auto code = in_.number<uint8_t>("a pickle");
      if (code == STOP) break;
      if (!constant(code) && !container(code) && !memory(code) && !object(code))
        in_.refuse(fmt::format("code {:#x} in a pickle, at {}", code, in_.position() - 1));
    }
    pickle_.root = pop();
    return std::move(pickle_);
  }

 private:
  // ---- The stack

  void push(uint32_t value) { stack_.push_back(value); }
  void make(Pickled value) {
    push(static_cast<uint32_t>(pickle_.values.size()));
    pickle_.values.push_back(std::move(value));
  }
  void make(Kind kind, std::vector<uint32_t> items = {}) {
    make({.kind = kind, .text = {}, .items = std::move(items)});
  }
  void make_text(Kind kind, uint64_t length) {
    make({.kind = kind, .text = in_.text(length, "a text of a pickle"), .items = {}});
  }
  void make_int(int64_t value) { make({.kind = Kind::Int, .integer = value, .text = {}, .items = {}}); }
  uint32_t pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) in_.refuse("a pickle takes what is not there");
    const uint32_t value = stack_.back();
    stack_.pop_back();
    return value;
  }
  std::vector<uint32_t> pop(size_t count) {
    std::vector<uint32_t> all(count);
    for (size_t i = count; i-- > 0;) all[i] = pop();
    return all;
  }
  std::vector<uint32_t> pop_to_mark() {
    if (marks_.empty()) in_.refuse("a pickle takes up to a mark that is not there");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<uint32_t> all(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return all;
  }
  Pickled& top(Kind kind) {
    push(pop());  // it is there
    Pickled& value = pickle_.values[stack_.back()];
    if (value.kind != kind)
      in_.refuse(fmt::format("a pickle treats a {} as a {}", name(value.kind), name(kind)));
    return value;
  }
  // Moves what was popped before this to the end of the container under it.
  void extend(Kind kind, const std::vector<uint32_t>& items) {
    Pickled& value = top(kind);
    if (kind == Kind::Dict && items.size() % 2 != 0) in_.refuse("a pickle has a key without a value");
    value.items.insert(value.items.end(), items.begin(), items.end());
  }

  // ---- The codes

  bool constant(uint8_t code) {
    switch (code) {
      case NONE: make(Kind::None); return true;
      case NEWTRUE:
      case NEWFALSE:
        make({.kind = Kind::Bool, .integer = code == NEWTRUE, .text = {}, .items = {}});
        return true;
      case BININT: make_int(in_.number<int32_t>("an integer")); return true;
      case BININT1: make_int(in_.number<uint8_t>("an integer")); return true;
      case BININT2: make_int(in_.number<uint16_t>("an integer")); return true;
      case LONG1: make_int(long_integer(in_.number<uint8_t>("an integer"))); return true;
      case LONG4: make_int(long_integer(in_.number<uint32_t>("an integer"))); return true;
      case BINFLOAT: {
        std::array<std::byte, 8> bytes{};  // big endian
        std::ranges::reverse_copy(in_.take(8, "a float"), bytes.begin());
        make({.kind = Kind::Float, .number = number_at<double>(bytes), .text = {}, .items = {}});
        return true;
      }
      case SHORT_BINUNICODE:
      case SHORT_BINSTRING: make_text(Kind::Text, in_.number<uint8_t>("a text")); return true;
      case BINUNICODE:
      case BINSTRING: make_text(Kind::Text, in_.number<uint32_t>("a text")); return true;
      case BINUNICODE8: make_text(Kind::Text, in_.number<uint64_t>("a text")); return true;
      case SHORT_BINBYTES: make_text(Kind::Bytes, in_.number<uint8_t>("bytes")); return true;
      case BINBYTES: make_text(Kind::Bytes, in_.number<uint32_t>("bytes")); return true;
      case BINBYTES8: make_text(Kind::Bytes, in_.number<uint64_t>("bytes")); return true;
      default: return false;
    }
  }

  int64_t long_integer(uint32_t bytes) {
    if (bytes > 8) in_.refuse(fmt::format("an integer of {} bytes in a pickle", bytes));
    uint64_t value = 0;
    int bits = 0;
    for (const std::byte b : in_.take(bytes, "an integer")) {
      value |= std::to_integer<uint64_t>(b) << bits;
      bits += 8;
    }
    if (bits == 0) return 0;
    return static_cast<int64_t>(value << (64 - bits)) >> (64 - bits);  // with its sign
  }

  bool container(uint8_t code) {
    switch (code) {
      case MARK: marks_.push_back(stack_.size()); return true;
      case EMPTY_TUPLE: make(Kind::Tuple); return true;
      case TUPLE1:
      case TUPLE2:
      case TUPLE3: make(Kind::Tuple, pop(code - TUPLE1 + 1U)); return true;
      case TUPLE: make(Kind::Tuple, pop_to_mark()); return true;
      case EMPTY_LIST: make(Kind::List); return true;
      case LIST: make(Kind::List, pop_to_mark()); return true;
      case APPEND: extend(Kind::List, pop(1)); return true;
      case APPENDS: extend(Kind::List, pop_to_mark()); return true;
      case EMPTY_SET: make(Kind::Set); return true;
      case FROZENSET: make(Kind::FrozenSet, pop_to_mark()); return true;
      case ADDITEMS: extend(Kind::Set, pop_to_mark()); return true;
      case EMPTY_DICT: make(Kind::Dict); return true;
      case DICT: {
        const std::vector<uint32_t> items = pop_to_mark();
        make(Kind::Dict);
        extend(Kind::Dict, items);
        return true;
      }
      case SETITEM: extend(Kind::Dict, pop(2)); return true;
      case SETITEMS: extend(Kind::Dict, pop_to_mark()); return true;
      default: return false;
    }
  }

  bool memory(uint8_t code) {
    const auto put = [&](uint32_t place) {
      const uint32_t value = pop();
      push(value);
      memo_[place] = value;
    };
    const auto get = [&](uint32_t place) {
      const auto found = memo_.find(place);
      if (found == memo_.end())
        in_.refuse(fmt::format("a pickle takes {} of its memory, which is empty", place));
      push(found->second);
    };
    switch (code) {
      case BINPUT: put(in_.number<uint8_t>("a place")); return true;
      case LONG_BINPUT: put(in_.number<uint32_t>("a place")); return true;
      case MEMOIZE: put(static_cast<uint32_t>(memo_.size())); return true;
      case BINGET: get(in_.number<uint8_t>("a place")); return true;
      case LONG_BINGET: get(in_.number<uint32_t>("a place")); return true;
      case POP:
        if (!marks_.empty() && marks_.back() == stack_.size())
          marks_.pop_back();
        else
          pop();
        return true;
      case POP_MARK: pop_to_mark(); return true;
      case DUP: {
        const uint32_t value = pop();
        push(value);
        push(value);
        return true;
      }
      case FRAME:
        in_.number<uint64_t>("a frame");
        return true;  // its length helps those who read from a pipe
      default: return false;
    }
  }

  bool object(uint8_t code) {
    switch (code) {
      case GLOBAL: {
        const std::string module = line();
        make_global(module + "." + line());
        return true;
      }
      case STACK_GLOBAL: {
        const std::string name = text(pop()), module = text(pop());
        make_global(module + "." + name);
        return true;
      }
      case REDUCE:
      case NEWOBJ: {
        const uint32_t arguments = pop(), function = pop();
        call(function, arguments);
        return true;
      }
      case BUILD:  // attributes of an object: none of ours has any
        pop();
        push(pop());
        return true;
      case BINPERSID: make(Kind::Persistent, pop(1)); return true;
      default: return false;
    }
  }

  std::string line() {
    std::string text;
    for (;;) {
      const auto c = in_.number<char>("a name");
      if (c == '\n') return text;
      text += c;
    }
  }

  const std::string& text(uint32_t value) const {
    const Pickled& v = pickle_[value];
    if (v.kind != Kind::Text) in_.refuse(fmt::format("a pickle has a {} as a name", name(v.kind)));
    return v.text;
  }

  void make_global(const std::string& global) {
    if (!is_allowed_(global))
      in_.refuse(
          fmt::format("its pickle asks for '{}', which is not on the list of what may stand in one", global));
    make({.kind = Kind::Global, .text = global, .items = {}});
  }

  void call(uint32_t function, uint32_t arguments) {
    if (pickle_[function].kind != Kind::Global)
      in_.refuse(fmt::format("a pickle calls a {}", name(pickle_[function].kind)));
    if (pickle_[arguments].kind != Kind::Tuple)
      in_.refuse(fmt::format("a pickle calls '{}' with no tuple", pickle_[function].text));
    const std::string& called = pickle_[function].text;
    if (called == "collections.OrderedDict" || called == "collections.defaultdict")
      make(Kind::Dict, pairs(arguments));
    else if (called.ends_with(".set") || called.ends_with(".frozenset"))
      make(called.ends_with(".set") ? Kind::Set : Kind::FrozenSet, listed(arguments));
    else
      make(Kind::Call, {function, arguments});
  }

  // Each item took a byte at least; a pickle that has more of them copies the same list again and again.
  void count_copies(size_t items) {
    copies_ += items;
    if (copies_ > in_.position()) in_.refuse("a pickle copies its lists too often");
  }

  // Of set([a, b, ...]), as protocols before 4 have it.
  std::vector<uint32_t> listed(uint32_t arguments) {
    const Pickled& tuple = pickle_[arguments];
    if (tuple.items.empty()) return {};
    const Pickled& list = pickle_[tuple.items[0]];
    if (list.kind != Kind::List) in_.refuse(fmt::format("a pickle makes a set of a {}", name(list.kind)));
    count_copies(list.items.size());
    return list.items;
  }

  // Of OrderedDict([[key, value], ...]), which old versions of Python wrote.
  std::vector<uint32_t> pairs(uint32_t arguments) {
    std::vector<uint32_t> all;
    const Pickled& tuple = pickle_[arguments];
    if (tuple.items.empty() || pickle_[tuple.items[0]].kind != Kind::List) return all;
    count_copies(pickle_[tuple.items[0]].items.size());
    for (const uint32_t pair : pickle_[tuple.items[0]].items) {
      if (pickle_[pair].items.size() != 2) in_.refuse("a pickle makes a dictionary of what are no pairs");
      all.insert(all.end(), pickle_[pair].items.begin(), pickle_[pair].items.end());
    }
    return all;
  }

  ByteReader& in_;
  bool (*is_allowed_)(const std::string& global);
  Pickle pickle_;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;  // how much was on the stack
  std::unordered_map<uint32_t, uint32_t> memo_;
  uint64_t copies_ = 0;
};

}  // namespace

const char* name(Pickled::Kind kind) {
  constexpr std::array<const char*, 14> kNames = {"None",  "bool",   "int",  "float",     "text",
                                                  "bytes", "tuple",  "list", "set",       "frozenset",
                                                  "dict",  "global", "call", "persistent"};
  return kNames[static_cast<size_t>(kind)];
}

Pickle read_pickle(ByteReader& in, bool (*is_allowed)(const std::string& global)) {
  return Machine(in, is_allowed).run();
}

}  // namespace quern::io
