#include "quern/runtime/cpu/link.h"

#include <elf.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "quern/base/error.h"
#include "quern/runtime/cpu/relocate.h"

namespace quern::cpu {
namespace {

#if defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#else
constexpr uint16_t kMachine = EM_X86_64;
#endif

// ---- what kernels call

struct Known {
  const char* name;
  uint64_t address;
};
template <class F>
Known known(const char* name, F* function) {
  return {name, reinterpret_cast<uint64_t>(function)};
}

// What LLVM makes of a sine and a cosine of the same number, where the C library has it.
void sine_and_cosine(double x, double* sine, double* cosine) { *sine = std::sin(x), *cosine = std::cos(x); }

std::span<const Known> functions() {
  static const Known all[] = {
      known("sin", static_cast<double (*)(double)>(std::sin)),
      known("cos", static_cast<double (*)(double)>(std::cos)),
      known("sincos", &sine_and_cosine),
      known("exp2", static_cast<double (*)(double)>(std::exp2)),
      known("log2", static_cast<double (*)(double)>(std::log2)),
      known("pow", static_cast<double (*)(double, double)>(std::pow)),
      known("fma", static_cast<double (*)(double, double, double)>(std::fma)),
      known("fmaf", static_cast<float (*)(float, float, float)>(std::fma)),
      known("trunc", static_cast<double (*)(double)>(std::trunc)),
      known("truncf", static_cast<float (*)(float)>(std::trunc)),
      known("memset", &std::memset),
      known("memcpy", &std::memcpy),
      known("memmove", &std::memmove),
  };
  return all;
}

// A function of another library may be too far away for a call: a jump stands beside the code, and behind it,
// where it goes to.
struct Jump {
#if defined(__aarch64__)
  uint32_t code[2] = {0x58000050U, 0xd61f0200U};  // ldr x16, 8 bytes on; br x16
#else
  uint8_t code[8] = {0xff, 0x25, 2, 0, 0, 0, 0xcc, 0xcc};  // jmp *8 bytes on
#endif
  uint64_t address = 0;
};
static_assert(sizeof(Jump) == 16);

// ---- memory

struct Pages {
  std::byte* begin = nullptr;
  size_t bytes = 0;
  explicit Pages(size_t size) : bytes(size) {
    void* const got = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED)
      throw MemoryError(fmt::format("CPU: out of memory, {} bytes for the code of a kernel", size));
    begin = static_cast<std::byte*>(got);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() { ::munmap(begin, bytes); }

  // Never both: what can be written cannot run.
  void make_code() const {
    if (::mprotect(begin, bytes, PROT_READ | PROT_EXEC) != 0)
      throw Error("CPU: the system does not let memory become code");
    __builtin___clear_cache(reinterpret_cast<char*>(begin), reinterpret_cast<char*>(begin + bytes));
  }
};

// ---- the object file

class Linker {
 public:
  explicit Linker(const Code& code) : code_(code), bytes_(code.object) {}

  Linked link() {
    read_header();
    const size_t code_bytes = place_sections();
    read_symbols();
    jumps_at_ = aligned(code_bytes, alignof(Jump));
    place_jumps();
    pages_ = std::make_shared<Pages>(std::max<size_t>(1, jumps_at_ + jumps_.size() * sizeof(Jump)));
    for (size_t i = 0; i < sections_.size(); i++)
      if (at_[i] != kNowhere && sections_[i].sh_size > 0)
        std::memcpy(pages_->begin + at_[i], contents(sections_[i]).data(), sections_[i].sh_size);
    if (!jumps_.empty()) std::memcpy(pages_->begin + jumps_at_, jumps_.data(), jumps_.size() * sizeof(Jump));
    for (const Elf64_Shdr& section : sections_)
      if (section.sh_type == SHT_RELA && section.sh_info < at_.size() && at_[section.sh_info] != kNowhere)
        for (const Elf64_Rela& entry : entries<Elf64_Rela>(contents(section))) apply(entry, section.sh_info);
    const uint64_t function = function_address();
    pages_->make_code();
    return {reinterpret_cast<Function>(function), pages_};  // NOLINT(performance-no-int-to-ptr)
  }

 private:
  static constexpr uint64_t kNowhere = ~uint64_t{0};
  static constexpr uint64_t kMost = uint64_t{1} << 30U;  // all of it is in reach of a distance of 32 bits

  [[noreturn]] void refuse(std::string_view why) const {
    throw Error(fmt::format("object file of kernel {}: {}", code_.name, why));
  }
  static uint64_t aligned(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

  std::string_view part(uint64_t offset, uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) refuse("a part of it is not there");
    return bytes_.substr(offset, size);
  }
  std::string_view contents(const Elf64_Shdr& section) const {
    return part(section.sh_offset, section.sh_size);
  }
  // Copies: in the file, they may stand at any address.
  template <class T>
  std::vector<T> entries(std::string_view from) const {
    if (from.size() % sizeof(T) != 0) refuse("a list of it ends within an entry");
    std::vector<T> all(from.size() / sizeof(T));
    if (!all.empty()) std::memcpy(all.data(), from.data(), from.size());
    return all;
  }
  std::string_view name_of(const Elf64_Sym& symbol) const {
    const size_t end =
        symbol.st_name < names_.size() ? names_.find('\0', symbol.st_name) : std::string_view::npos;
    if (end == std::string_view::npos) refuse("a symbol has no name");
    return names_.substr(symbol.st_name, end - symbol.st_name);
  }

  void read_header() {
    const Elf64_Ehdr header = entries<Elf64_Ehdr>(part(0, sizeof(Elf64_Ehdr))).front();
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_type != ET_REL || header.e_machine != kMachine ||
        header.e_shentsize != sizeof(Elf64_Shdr))
      refuse("it is none for this processor");
    sections_ = entries<Elf64_Shdr>(part(header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr)));
  }

  // Code and constants, one after the other. Returns how many bytes that are.
  size_t place_sections() {
    uint64_t end = 0;
    for (const Elf64_Shdr& section : sections_) {
      at_.push_back(kNowhere);
      if ((section.sh_flags & SHF_ALLOC) == 0 || section.sh_type == SHT_NOTE) continue;
      if (section.sh_type != SHT_PROGBITS || (section.sh_flags & (SHF_WRITE | SHF_TLS)) != 0)
        refuse("it has a section that is neither code nor constants");
      const uint64_t alignment = std::max<uint64_t>(1, section.sh_addralign);
      if (!std::has_single_bit(alignment) || alignment > 4096)
        refuse("a section has an alignment that is none");
      contents(section);  // is there
      at_.back() = aligned(end, alignment);
      end = at_.back() + section.sh_size;
      if (end > kMost) refuse("it is too large");
    }
    return end;
  }

  void read_symbols() {
    const auto table = std::ranges::find(sections_, uint32_t{SHT_SYMTAB}, &Elf64_Shdr::sh_type);
    if (table == sections_.end()) refuse("it has no symbols");
    if (table->sh_link >= sections_.size()) refuse("its symbols have no names");
    symbols_ = entries<Elf64_Sym>(contents(*table));
    names_ = contents(sections_[table->sh_link]);
  }

  void place_jumps() {
    for (const Elf64_Sym& symbol : symbols_) {
      jump_of_.push_back(kNowhere);
      if (symbol.st_shndx != SHN_UNDEF || &symbol == symbols_.data()) continue;  // the first is none
      const std::string_view name = name_of(symbol);
      for (const Known& function : functions())
        if (name == function.name) {
          jump_of_.back() = jumps_.size();
          jumps_.push_back({.address = function.address});
        }
      if (jump_of_.back() == kNowhere) refuse(fmt::format("it calls {}, which there is not", name));
    }
  }

  uint64_t address(uint64_t offset) const { return reinterpret_cast<uint64_t>(pages_->begin) + offset; }

  void apply(const Elf64_Rela& entry, size_t section) const {
    const uint64_t number = ELF64_R_SYM(entry.r_info);
    const auto type = static_cast<uint32_t>(ELF64_R_TYPE(entry.r_info));
    const uint64_t size = sections_[section].sh_size, width = relocated_bytes(kMachine, type);
    if (width == 0 || number >= symbols_.size())
      refuse(fmt::format("a relocation of kind {} is not known", type));
    if (entry.r_offset > size || width > size - entry.r_offset)
      refuse("a relocation lies outside of its section");
    const uint64_t place = at_[section] + entry.r_offset;
    Relocation relocation{.machine = kMachine, .type = type, .place = address(place), .target = 0};
    const auto added = static_cast<uint64_t>(entry.r_addend);
    if (const uint64_t jump = jump_of_[number]; jump != kNowhere) {
      const uint64_t at = jumps_at_ + jump * sizeof(Jump);
      relocation.target = address(at) + added;
      relocation.slot = address(at + offsetof(Jump, address)) + added;
    } else {
      relocation.target = address(offset_of(symbols_[number])) + added;
    }
    if (!relocate(relocation, pages_->begin + place))
      refuse(fmt::format("a relocation of kind {} cannot be done", type));
  }

  uint64_t offset_of(const Elf64_Sym& symbol) const {
    const uint16_t section = symbol.st_shndx;
    if (section >= at_.size() || at_[section] == kNowhere || symbol.st_value > sections_[section].sh_size)
      refuse("a symbol lies outside of all sections");
    return at_[section] + symbol.st_value;
  }

  uint64_t function_address() const {
    for (const Elf64_Sym& symbol : symbols_)
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && name_of(symbol) == code_.function &&
          symbol.st_shndx < sections_.size() && (sections_[symbol.st_shndx].sh_flags & SHF_EXECINSTR) != 0)
        return address(offset_of(symbol));
    refuse("it does not have the kernel's function");
  }

  const Code& code_;
  std::string_view bytes_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<uint64_t> at_;  // where each section begins, in the memory that is made
  std::vector<Elf64_Sym> symbols_;
  std::string_view names_;
  std::vector<Jump> jumps_;
  std::vector<uint64_t> jump_of_;  // of each symbol
  uint64_t jumps_at_ = 0;
  std::shared_ptr<Pages> pages_;
};

}  // namespace

Linked link(const Code& code) { return Linker(code).link(); }

}  // namespace quern::cpu
