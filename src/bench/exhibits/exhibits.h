// SPDX-License-Identifier: Apache-2.0
// The list of exhibits, in the order in which `ridge exhibit all` shows them. Each is src/bench/exhibits/NAME.cc.
#pragma once

#include "bench/exhibits/exhibit.h"

#define RIDGE_EXHIBITS(X)       \
  X(timing)                     \
  X(launch_overhead)            \
  X(gemm_ladder)                \
  X(tiling)                     \
  X(gemm_scaling)               \
  X(tile_and_wave_quantization) \
  X(add_and_matmul_2048)        \
  X(contiguity)                 \
  X(coalescing)                 \
  X(precision)                  \
  X(fusion)                     \
  X(recompute)                  \
  X(mlp_scaling)                \
  X(flash_attention)            \
  X(kv_cache)                   \
  X(initialisation)

namespace ridge::bench {

#define RIDGE_DECLARE_EXHIBIT(name) Exhibit name##_exhibit();
RIDGE_EXHIBITS(RIDGE_DECLARE_EXHIBIT)
#undef RIDGE_DECLARE_EXHIBIT

}  // namespace ridge::bench
