// SPDX-License-Identifier: Apache-2.0
// The least time of a graph's multiplications and of reading its weights, type by type: what rates
// that a machine cannot exceed allow. predict.h says how long kernels really take.
#pragma once

#include <cstdint>
#include <map>

#include "cost/ceilings.h"
#include "cost/costed_graph.h"

namespace ridge::cost {

struct TypedAmounts {
  // Executed MACs by the type that is multiplied: the type to which activations are rounded, or
  // that of a node's first operand.
  std::map<DType, int64_t> macs;
  // Stored bytes of the weights that are read, each once, by the type in which they are held.
  std::map<DType, int64_t> weight_bytes;

  TypedAmounts& operator+=(const TypedAmounts& other);
  int64_t all_macs() const;
  int64_t all_weight_bytes() const;
};

// Counts one run of the graph.
TypedAmounts typed_amounts(const CostedGraph& costed);
TypedAmounts times(int64_t count, const TypedAmounts& amounts);

// The times of all MACs, each at the rate of its type: the theoretical rate, or that of a loop
// which only multiplies. 0 if a type's rate is unknown or there are no MACs.
double theoretical_multiply_ns(const TypedAmounts& amounts, const Ceilings& ceilings);
double multiply_only_ns(const TypedAmounts& amounts, const Ceilings& ceilings);

// The time of reading the weights, each at the slower of the read bandwidth of memory and the rate
// of a loop that only unpacks its type, and of reading `other_bytes` at that bandwidth. Weights
// whose unpacking was not measured are read at the bandwidth.
double read_and_unpack_ns(const TypedAmounts& amounts,
                          int64_t other_bytes,
                          const Ceilings& ceilings);
// The time of unpacking alone; 0 if it was not measured for one of the types in blocks or repacked
// tiles.
double unpack_only_ns(const TypedAmounts& amounts, const Ceilings& ceilings);

}  // namespace ridge::cost
