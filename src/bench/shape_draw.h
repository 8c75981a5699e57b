// SPDX-License-Identifier: Apache-2.0
// Calls of ops at random sizes, from the first cache to 2 GiB: what predictions and other software are compared on. Nothing of
// the time model knows this list.
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

  // Of a product its layout; of others the implementation; empty if there is only one.
  std::string form() const;
  bool is_causal() const { return request.is_causal; }
};

inline constexpr int64_t kMostDrawn = 10'000;
inline constexpr std::string_view kDrawnKinds = "gemm, gemv, attention, pointwise, norm";

// The first `count` of the shapes that a seed gives, in turn of the kinds (products have three places of ten, attention and
// products with a vector 1.5 each, pointwise ops and norms 2 each), in fp32 and bf16 by turns. The bytes of the operands are
// spread evenly over the octaves between 32 KiB and 2 GiB as far as the work of a call stays below a second of two cores.
std::vector<DrawnShape> draw_shapes(uint32_t seed, int64_t count);

// Measures shapes and notes the errors of their predictions by kind.
record::BenchRecord time_shapes(const std::vector<DrawnShape>& shapes,
                                TrialRunner& runner,
                                const PointListener& listener);

}  // namespace ridge::bench
