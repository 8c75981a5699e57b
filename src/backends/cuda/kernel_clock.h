// SPDX-License-Identifier: Apache-2.0
// When each node's kernels ran: by CUPTI's records, also inside a replayed graph; by events between
// nodes where CUPTI is missing or taken.
#pragma once

#include <memory>

#include "backends/backend.h"
#include "backends/cuda/device.h"

namespace ridge::backends::cuda {

std::unique_ptr<Instrument> make_kernel_clock(Device& device);

// CUPTI's; null where it is missing or another profiler holds it, and then `failure` says why.
std::unique_ptr<Instrument> make_cupti_clock(Device& device, std::string& failure);

// A stretch from node to node: gaps count to the node before them.
std::unique_ptr<Instrument> make_event_clock(Device& device, std::string failure);

}  // namespace ridge::backends::cuda
