// SPDX-License-Identifier: Apache-2.0
// Computes a product in one GEMM that would take the library many launches on the dense operands:
// operands with an unsuitable order are first copied to the order [batch, rows, columns], as an
// eager framework does.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "backends/product_plan.h"

namespace ridge::backends::cuda {

struct PackedOperand {
  std::string letters;  // einsum letters, in the order of the packed operand
  std::string from;     // in the order of the original operand
  bool is_packed = false;
  int64_t bytes = 0;  // size of the packed copy; 0 if there is none
};

struct PackedProduct {
  GemmShape gemm;
  std::array<PackedOperand, 3> operands;  // A, B, C
  int launches() const;
  int64_t bytes() const;
};

// For dense operands. Returns nullopt if the library does not support the packed product either.
std::optional<PackedProduct> plan_packed_product(const Call& call);

}  // namespace ridge::backends::cuda
