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

// Counts the kernels, memsets and copies of a launch, without running it: a library call may have
// several.
size_t count_kernels(const Device& device, const Launch& launch);

}  // namespace ridge::backends::cuda
