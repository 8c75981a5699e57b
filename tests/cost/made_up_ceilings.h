// SPDX-License-Identifier: Apache-2.0
// Ceilings of a fictitious machine, for tests of predictions.
#pragma once

#include <utility>
#include <vector>

#include "cost/ceilings.h"

namespace ridge::cost {

// One core with these bandwidths, the last of which is memory's, and GEMMs at this rate; all other
// values are 0.
inline Ceilings made_up_ceilings(std::vector<BandwidthPoint> bandwidth, double flops_per_ns) {
  Ceilings c;
  c.machine.device = "test";
  c.machine.threads = c.machine.cores = 1;
  c.source = "made up";
  const BandwidthPoint memory = bandwidth.back();
  c.levels = {
      {"memory", memory.footprint_bytes, memory.read_bytes_per_ns, memory.copy_bytes_per_ns, 0}};
  c.bandwidth = std::move(bandwidth);
  c.products.resize(1);
  c.products[0].peak_flops_per_ns = flops_per_ns;
  return c;
}

}  // namespace ridge::cost
