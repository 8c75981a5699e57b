// SPDX-License-Identifier: Apache-2.0
// A product in one GEMM on dense operands in an order that a library does not take, or for which it
// takes many launches: such operands are first copied to the order [batch, rows, columns], as an
// eager framework does.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "backends/backend.h"
#include "backends/product_plan.h"

namespace ridge::backends {

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

// For dense operands. The GEMM has at most one batch axis. A caller asks whether its library
// supports it.
PackedProduct plan_packed_product(const Call& call);

// The operand with the axes of its packed copy, still in its own memory.
Operand in_packed_order(const Operand& operand, const PackedOperand& packed);

}  // namespace ridge::backends
