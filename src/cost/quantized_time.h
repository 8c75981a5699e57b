// SPDX-License-Identifier: Apache-2.0
// The time of GEMMs with quantized weights: a look-up by the number of tokens. Independent of
// graphs, so that a backend can compare its kernels by it. GEMMs of two plain operands are in
// product_time.h.
#pragma once

#include <cstdint>

#include "cost/ceilings.h"

namespace ridge::cost {

// The times for this number of tokens: linear between two measured numbers, and in proportion to
// the tokens above the largest.
QuantizedTime quantized_time(const QuantizedRates& rates, int64_t tokens);

// ns of one GEMM with a weight [out, in]. `memory_share` is 0 if the weight is in the caches, 1 if
// it comes from memory, and between if it comes from a cache that is nearly as slow. Reading
// overlaps with all of the arithmetic if `overlaps`, as it does where weights need no unpacking.
double quantized_gemm_ns(const QuantizedTime& time,
                         double memory_share,
                         int64_t out,
                         int64_t in,
                         bool overlaps = false);

}  // namespace ridge::cost
