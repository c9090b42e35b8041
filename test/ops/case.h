// The inputs of one run of a row.
#pragma once

#include "test/fuzz.h"
#include "test/ops/layout.h"
#include "test/ops/row.h"

namespace quern::optest {

struct Case {
  std::vector<Ints> shapes;
  std::vector<Placed> placed;
  Arrays bases;
  Numbers fills;
  std::string name;

  Arrays seen(const Arrays& memory) const {
    Arrays arrays;
    for (size_t i = 0; i < memory.size(); i++)
      arrays.push_back(optest::seen(placed[i], memory[i], shapes[i], fills[i]));
    return arrays;
  }
};

// Each input in the layout after that of the one before, so that different ones meet.
Case make_case(const Row& row, std::mt19937_64& random, DType dtype, const std::vector<Ints>& shapes,
               size_t layout);
Tensors views(const Case& c, const Tensors& leaves);  // of tensors that hold the bases

// Of cases that differ in numbers only, sanitizers see one in three.
inline bool is_run(size_t turn) { return !kSanitized || turn % 3 == 0; }

}  // namespace quern::optest
