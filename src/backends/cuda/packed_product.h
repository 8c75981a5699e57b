// SPDX-License-Identifier: Apache-2.0
// A product whose dense operands the library would take in many launches, as one: operands in the
// way are copied into the order [batch, rows, columns] first, as an eager framework does.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "backends/product_plan.h"

namespace ridge::backends::cuda {

struct PackedOperand {
  std::string letters;  // of the einsum, in the order of the packed operand
  std::string from;     // as the operand has them
  bool is_packed = false;
  int64_t bytes = 0;  // of the packed copy; 0 where there is none
};

struct PackedProduct {
  GemmShape gemm;
  std::array<PackedOperand, 3> operands;  // A, B, C
  int launches() const;
  int64_t bytes() const;
};

// For dense operands; nothing where the library would not take the packed product either.
std::optional<PackedProduct> plan_packed_product(const Call& call);

}  // namespace ridge::backends::cuda
