// SPDX-License-Identifier: Apache-2.0
// Records a stage's launches as one CUDA graph.
#pragma once

#include <memory>
#include <span>

#include "backends/backend.h"
#include "backends/cuda/device.h"

namespace ridge::backends::cuda {

// Records the launches without running them. Launches that do not wait for each other, directly or
// indirectly, may run concurrently. With an instrument, the graph's nodes are marked as belonging
// to the launches' nodes.
std::unique_ptr<Recording> record_graph(Device& device,
                                        std::span<const NodeLaunch> launches,
                                        Instrument* instrument);

// The number of kernels, memsets and copies in a launch (a library call may have several). Does not run the
// launch.
size_t count_kernels(const Device& device, const Launch& launch);

}  // namespace ridge::backends::cuda
