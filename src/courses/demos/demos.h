// SPDX-License-Identifier: Apache-2.0
// The list of demos in the order of `ridge demo all`. Each is src/courses/demos/NAME.cc.
#pragma once

#include "courses/demos/demo.h"

#define RIDGE_DEMOS(X)          \
  X(timing)                     \
  X(launch_overhead)            \
  X(three_loops)                \
  X(gemm_ladder)                \
  X(tiling)                     \
  X(gemm_scaling)               \
  X(tile_and_wave_quantization) \
  X(add_and_matmul_2048)        \
  X(contiguity)                 \
  X(coalescing)                 \
  X(divergence)                 \
  X(latency)                    \
  X(precision)                  \
  X(fusion)                     \
  X(recompute)                  \
  X(mlp_scaling)                \
  X(mlp_multiples)              \
  X(flash_attention)            \
  X(kv_cache)                   \
  X(initialisation)             \
  X(learning_rate)

namespace ridge::courses {

#define RIDGE_DECLARE_DEMO(name) Demo name##_demo();
RIDGE_DEMOS(RIDGE_DECLARE_DEMO)
#undef RIDGE_DECLARE_DEMO

}  // namespace ridge::courses
