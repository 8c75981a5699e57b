// SPDX-License-Identifier: Apache-2.0
// Measures when each node's kernels ran: with CUPTI's records, also inside a replayed graph, or
// with events between nodes if CUPTI is missing or in use.
#pragma once

#include <memory>

#include "backends/backend.h"
#include "backends/cuda/device.h"

namespace ridge::backends::cuda {

std::unique_ptr<Instrument> make_kernel_clock(Device& device);

// The instrument that uses CUPTI. Null if CUPTI is missing or another profiler holds it; `failure`
// is then the reason.
std::unique_ptr<Instrument> make_cupti_clock(Device& device, std::string& failure);

// The instrument that uses events between nodes: a gap counts for the node before it.
std::unique_ptr<Instrument> make_event_clock(Device& device, std::string failure);

}  // namespace ridge::backends::cuda
