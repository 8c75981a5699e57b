// SPDX-License-Identifier: Apache-2.0
// A stage's launches as one CUDA graph.
#pragma once

#include <memory>
#include <span>

#include "backends/backend.h"
#include "backends/cuda/device.h"

namespace ridge::backends::cuda {

// Records the launches without running them. Those that do not wait for each other, directly or
// not, may run side by side. With an instrument the graph's nodes are marked as theirs.
std::unique_ptr<Recording> record_graph(Device& device,
                                        std::span<const NodeLaunch> launches,
                                        Instrument* instrument);

// The kernels and clearings that a launch brings, which is not made: a library's may be several.
size_t count_kernels(const Device& device, const Launch& launch);

}  // namespace ridge::backends::cuda
