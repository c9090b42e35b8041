// What the compiler asks of a device: what runs in parallel, which memory is near. No stage knows a device by
// name.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace quern {

// What runs in parallel, from the outermost level inwards. A level of width 1 is one that a device does not
// have.
struct ParallelLevels {
  int64_t cores = 1;             // or multiprocessors
  int64_t threads_per_core = 1;  // threads that fill a core
  int64_t workgroup = 1;      // the most threads of a workgroup, which share memory and wait for each other
  int64_t warp = 1;           // threads that run in step
  int64_t vector_bytes = 16;  // the widest vector of one thread
};

// Where values can be, from the nearest memory to the farthest. A tier of 0 bytes is one that the device does
// not have.
struct MemoryTiers {
  int64_t registers = 16;           // of 32 bits (of a vector where cores run loops), for one thread
  int64_t thread_bytes = 32 << 20;  // memory of a thread's own, of which what is used lies in its caches
  int64_t group_bytes = 0;          // memory that a workgroup shares
  int64_t l1_bytes = 32 << 10, l2_bytes = 512 << 10, l3_bytes = 8 << 20;  // caches
};

// Kinds of instructions, by how long they take.
enum class OpClass : uint8_t {
  simple,  // additions, products, comparisons, conversions
  divide,
  root,
  exp2,
  log2,
  sin,
  pow,
  random,
  divide_by_constant,  // of integers
  divide_integers,
};
constexpr size_t kOpClasses = 10;

// How fast one core is, in cycles. They are declared for families of processors, never measured.
struct Rates {
  double cycle_ps = 300;  // picoseconds
  // cycles that the class keeps a core busy, for a vector of 32 bytes and for one of the widest
  std::array<double, kOpClasses> cycles = {0.5, 5, 6, 5, 9, 14, 24, 20, 2.5, 60};
  double loads = 2, stores = 1, instructions = 4;         // per cycle
  double latency = 4;                                     // of an addition or a product of floats
  double l2_bytes = 64, l3_bytes = 48, memory_bytes = 6;  // per cycle and core
  double all_memory_bytes = 10;                           // per cycle, all cores together
  double page = 8;                                        // to go to a page that is not at hand
  double wake_us = 5;                                     // until threads are awake, and have met again
};

struct DeviceSpec {
  std::string name;  // for messages only
  ParallelLevels parallel = {};
  MemoryTiers memory = {};
  Rates rates = {};
  int64_t max_buffers = 0;  // arguments of one kernel; 0: no limit

  bool has_float16 = true, has_bfloat16 = true, has_float64 = true, has_fp8 = true, has_int64 = true;
  bool converts_float16 = false;  // without has_float16: to and from float32, in hardware
  bool has_fma = false;           // MULACC of float32 and float64 is one instruction
  bool has_exp2 = false;          // EXP2 of vectors of float32: its renderer has a shorter one
  bool adds_addresses_in_64_bits = false;

  // A kernel is run by workgroups of threads; else by the loops of cores.
  bool has_workgroups() const { return parallel.workgroup > 1; }
  bool has_thread_memory() const { return memory.thread_bytes > 0; }
  bool has_group_memory() const { return memory.group_bytes > 0; }

  // How many independent iterations a loop must have to keep the device busy: one for each core.
  int64_t parallel_iterations() const { return parallel.cores; }

  // The device as a kernel sees it that one thread runs.
  DeviceSpec one_thread() const;

  std::string text() const;  // all of it: what code is generated for
};

}  // namespace quern
