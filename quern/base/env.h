// The environment variables: one table that is read here, printed by the documentation, and overridden by
// tests.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace quern::env {

// A number has a default and bounds; text is "" when it is not set. A flag is 1 when the variable is set to
// anything but nothing, 0 included: that is for variables which other programs read, too, by this convention.
// What is quern's own and on or off is a number from 0 to 1.
//   NUMBER(name, default, least, most, description)   FLAG(name, description)   TEXT(name, description)
// clang-format off
#define QUERN_VARIABLES(NUMBER, FLAG, TEXT)                                                                      \
  NUMBER(DEBUG, 0, 0, 7, "how much is told of what is compiled and run: 1 a little, 7 everything")               \
  NUMBER(SPEC, 0, 0, 2, "graphs are checked: 1 wherever they are of one level, 2 also each node as it is made")  \
  NUMBER(PROFILE, 0, 0, 1, "what time was spent on is told when the program ends: kernels, and stages of the compiler") \
  NUMBER(TRACK_MATCH_STATS, 0, 0, 2, "rewrite rules are counted: 1 by list of rules, 2 by rule, with their time") \
  TEXT(REWRITE_TRACE, "a file in which every rewrite is recorded")                                               \
  TEXT(GRAPHS, "a file to which each graph of tensors that is scheduled is added, as IR text")                   \
  TEXT(DEVICE, "where tensors are made and computed, if nothing is said; not set: CPU, or INTERP without LLVM")  \
  TEXT(DEFAULT_FLOAT, "dtype of floats, if nothing is said: half, bfloat16, float, double or a full name; not set: float32") \
  TEXT(DEFAULT_INT, "dtype of integers, if nothing is said; not set: int32")                                     \
  NUMBER(PCONTIG, 1, 0, 2, "values kept in LOCAL memory: 0 never, 1 where it pays, 2 wherever they fit")          \
  NUMBER(MAX_KERNEL_BUFFERS, 0, 0, 4096, "most buffers of one kernel; 0: what the device allows")                \
  NUMBER(SPLIT_REDUCEOP, 1, 0, 1, "large reduces are split into two kernels")                                    \
  NUMBER(REDUCEOP_SPLIT_THRESHOLD, 32768, 1, 1 << 30, "reduces of fewer elements for each output are not split")  \
  NUMBER(REDUCEOP_SPLIT_SIZE, 22, 8, 32, "logarithm of the most elements between the two kernels of a split reduce") \
  NUMBER(RING, 1, 0, 2, "values of devices are combined around a ring: 0 never, 1 if large, 2 always")             \
  NUMBER(NOOPT, 0, 0, 1, "kernels are run as they are scheduled: loops are not split, sums are added in order and each rounded") \
  TEXT(OPTS, "optimisations for all kernels, instead of those that are chosen for each: UPCAST(0, 8) UNROLL(1, 4); @FILE: by name") \
  NUMBER(JIT, 1, 0, 2, "functions given to jit() are captured and replayed: 0 never, 1 yes, 2 kernel by kernel")     \
  NUMBER(BEAM, 0, 0, 64, "optimisations of each kernel are searched by measuring: how many of the best are followed; 0: none") \
  NUMBER(BEAM_SECONDS, 60, 0, 86400, "a search for one kernel that takes longer ends with the best so far")       \
  NUMBER(CPU_THREADS, 0, 0, 1024, "threads that kernels of the CPU may use; 0: one for each core that this process may use") \
  NUMBER(CPU_VECTOR_BYTES, 0, 0, 64, "widest vectors in code for the CPU, 16, 32 or 64 bytes; 0: those of the hardware") \
  NUMBER(CACHE, 1, 0, 1, "compiled kernels are kept on disk, for the next process")                             \
  TEXT(QUERN_CACHE_DIR, "the folder they are kept in; not set: quern in $XDG_CACHE_HOME, else in ~/.cache")      \
  NUMBER(CACHE_LIMIT, 1024, 1, 1 << 20, "most MiB of that folder: what was not used for longest goes")           \
  NUMBER(GUARD, 0, 0, 1, "memory of the host ends or begins at a page that nobody may touch, and is not used twice") \
  FLAG(NO_COLOR, "output has no colours")
// clang-format on

enum class Kind : uint8_t { number, flag, text };

// A row of the table, with the value that is in force. The environment is read when a value is first asked
// for.
struct Variable {
  static constexpr int64_t kUnread = std::numeric_limits<int64_t>::min();

  const char* name;
  Kind kind;
  int64_t fallback, least, most;  // of a number or flag
  const char* description;
  std::atomic<int64_t> number{kUnread};
  std::atomic<const std::string*> text{nullptr};  // points into a pool whose strings live forever
};

namespace detail {

enum Row : uint8_t {
#define NUMBER(name, fallback, least, most, description) name,
#define FLAG(name, description) name,
#define TEXT(name, description) name,
  QUERN_VARIABLES(NUMBER, FLAG, TEXT)
#undef NUMBER
#undef FLAG
#undef TEXT
      kRows
};
extern Variable rows[kRows];

// From the environment. An Error names the variable, what it is set to and what is allowed.
int64_t read_number(Variable& variable);
const std::string& read_text(Variable& variable);

inline int64_t number(Row row) {
  const int64_t value = rows[row].number.load(std::memory_order_relaxed);
  return value == Variable::kUnread ? read_number(rows[row]) : value;
}
inline const std::string& text(Row row) {
  const std::string* value = rows[row].text.load(std::memory_order_acquire);
  return value == nullptr ? read_text(rows[row]) : *value;
}

}  // namespace detail

// A function for each variable: env::DEBUG(). It costs a load and a comparison.
#define NUMBER(name, fallback, least, most, description) \
  inline int64_t name() { return detail::number(detail::name); }
#define FLAG(name, description) \
  inline bool name() { return detail::number(detail::name) != 0; }
#define TEXT(name, description) \
  inline const std::string& name() { return detail::text(detail::name); }
QUERN_VARIABLES(NUMBER, FLAG, TEXT)
#undef NUMBER
#undef FLAG
#undef TEXT

// By name. An Error for a name that is not in the table, or a variable of the other kind.
int64_t get(std::string_view name);  // a number, or a flag as 0 or 1
const std::string& get_text(std::string_view name);

std::vector<std::string_view> names();

// In all threads, from now on.
void set(std::string_view name, int64_t value);
void set(std::string_view name, std::string_view text);

// Sets a variable, in all threads, until the end of a scope; scopes end in the opposite order of their
// beginnings.
class Override {
 public:
  Override(std::string_view name, int64_t value);
  Override(std::string_view name, std::string_view text);
  Override(const Override&) = delete;
  Override& operator=(const Override&) = delete;
  ~Override();

 private:
  Variable& variable_;
  int64_t number_ = 0;
  const std::string* text_ = nullptr;
};

// The table as text, a line a variable: name, default, what is allowed, description.
std::string table();

}  // namespace quern::env
