// What the compiler asks of a device. No stage knows a device by name: it looks at these numbers.
#pragma once

#include <cstdint>
#include <string>

namespace quern {

struct DeviceSpec {
  std::string name;               // for messages only
  int64_t compute_units = 1;      // cores, or multiprocessors: that many workgroups run at once
  int64_t threads_per_unit = 1;   // threads that fill a compute unit
  int64_t workgroup_threads = 1;  // the most threads of one workgroup; 1: no workgroups
  int64_t warp = 1;
  int64_t local_bytes = 0;    // LOCAL memory of a workgroup; 0: none
  int64_t registers = 16;     // of 32 bits (of a vector on a CPU), for one thread
  int64_t vector_bytes = 16;  // the widest load
  int64_t l1_bytes = 32 << 10, l2_bytes = 512 << 10, l3_bytes = 8 << 20;
  int64_t max_buffers = 0;  // arguments of one kernel; 0: no limit
  bool has_float16 = true, has_bfloat16 = true, has_float64 = true, has_fp8 = true, has_int64 = true;

  bool converts_float16 = false;  // without has_float16: to and from float32, in hardware

  bool has_fma = false;   // MULACC of float32 and float64 is one instruction
  bool has_exp2 = false;  // EXP2 of vectors of float32: its renderer has a shorter one

  bool adds_addresses_in_64_bits = false;

  // How many independent iterations a loop must have to keep the device busy.
  int64_t parallel_iterations() const { return compute_units; }

  std::string text() const;  // all of it: what code is generated for
};

}  // namespace quern
