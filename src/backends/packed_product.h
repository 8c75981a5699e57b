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

// An operand where the call has it, and where the GEMM finds it: at the same place, or in a packed
// copy, whose axes both then have.
struct PackedPlace {
  Operand there, here;
  bool is_packed = false;
};
// The places of A, B and C; `memory` has packed.bytes() for the copies.
std::array<PackedPlace, 3> packed_places(const BindCall& call,
                                         const PackedProduct& packed,
                                         std::byte* memory);

}  // namespace ridge::backends
