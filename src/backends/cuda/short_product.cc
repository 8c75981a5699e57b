// SPDX-License-Identifier: Apache-2.0
// Decides by the time at the manufacturer's peak rate.
#include "backends/cuda/short_product.h"

namespace ridge::backends::cuda {

bool is_short_product(int64_t macs, DType dtype, const DeviceFacts& facts, bool tf32) {
  constexpr double kShortNs = 12'000;
  const double flops_per_ns =
      facts.multiprocessors * facts.clock_ghz * flops_per_clock(facts, dtype, tf32);
  return 2.0 * static_cast<double>(macs) < kShortNs * flops_per_ns;
}

}  // namespace ridge::backends::cuda
