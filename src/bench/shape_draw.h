// SPDX-License-Identifier: Apache-2.0
// Draws calls of ops at random sizes, from the first cache to 2 GiB, on which predictions and other
// software are compared. Nothing of the time model knows this list.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/op_shapes.h"
#include "bench/trial_runner.h"

namespace ridge::bench {

struct DrawnShape {
  std::string kind;  // "gemm", "gemv", "attention", "pointwise", "norm"
  const OpShape* op = nullptr;
  OpRequest request;

  // A product has its layout, another op its implementation; empty if there is only one.
  std::string form() const;
  bool is_causal() const { return request.is_causal; }
};

inline constexpr int64_t kMostDrawn = 10'000;

// A seed's first `count` shapes, alternating between fp32 and bf16. Of ten, three are GEMMs, 1.5
// each attention and gemv, 2 each pointwise ops and norms. The operands' bytes are spread evenly
// over the octaves from 32 KiB to 2 GiB, while a call's work stays below a second of two cores.
std::vector<DrawnShape> draw_shapes(uint32_t seed, int64_t count);

// Measures shapes and notes the errors of their predictions by kind.
record::BenchRecord time_shapes(const std::vector<DrawnShape>& shapes,
                                TrialRunner& runner,
                                const PointListener& listener);

}  // namespace ridge::bench
