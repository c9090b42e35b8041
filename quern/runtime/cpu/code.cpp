#include "quern/runtime/cpu/code.h"

#include <cstring>

namespace quern::cpu {
namespace {

// One list of fields for both ways.
template <class Stream, class C>
void fields(Stream& s, C& code) {
  s.text(code.name), s.text(code.function);
  s.list(code.params, [&](auto& p) {
    s.number(p.slot), s.number(p.elements), s.number(p.element_bytes), s.flag(p.written), s.text(p.dtype);
  });
  s.list(code.variables, [&](auto& v) { s.text(v.name), s.number(v.min), s.number(v.max); });
  s.number(code.scratch_bytes), s.number(code.threads);
  s.list(code.opts, [&](auto& opt) { s.text(opt); });
  s.text(code.object);
}

struct Writer {
  std::string bytes;
  void number(int64_t n) { bytes.append(reinterpret_cast<const char*>(&n), sizeof n); }
  void flag(bool f) { number(f ? 1 : 0); }
  void text(const std::string& t) {
    number(static_cast<int64_t>(t.size()));
    bytes += t;
  }
  template <class T, class F>
  void list(const std::vector<T>& all, const F& each) {
    number(static_cast<int64_t>(all.size()));
    for (const T& one : all) each(one);
  }
};

struct Reader {
  std::string_view bytes;
  bool good = true;

  std::string_view take(size_t count) {
    good = good && count <= bytes.size();
    if (!good) return {};
    const std::string_view taken = bytes.substr(0, count);
    bytes.remove_prefix(count);
    return taken;
  }
  void number(int64_t& n) {
    if (const std::string_view taken = take(sizeof n); good) std::memcpy(&n, taken.data(), sizeof n);
  }
  void flag(bool& f) {
    int64_t n = 0;
    number(n);
    f = n != 0;
  }
  size_t count() {
    int64_t n = 0;
    number(n);
    good = good && n >= 0 && static_cast<size_t>(n) <= bytes.size();
    return good ? static_cast<size_t>(n) : 0;
  }
  void text(std::string& t) { t = take(count()); }
  template <class T, class F>
  void list(std::vector<T>& all, const F& each) {
    for (size_t left = count(); left > 0 && good; left--) each(all.emplace_back());
  }
};

}  // namespace

std::string Code::bytes() const {
  Writer writer;
  fields(writer, *this);
  return std::move(writer.bytes);
}

std::optional<Code> Code::from(std::string_view bytes) {
  Code code;
  Reader reader{bytes};
  fields(reader, code);
  if (!reader.good || !reader.bytes.empty()) return {};
  return code;
}

}  // namespace quern::cpu
