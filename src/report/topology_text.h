// SPDX-License-Identifier: Apache-2.0
// A machine's topology as text and as JSON.
#pragma once

#include <string>

#include "record/topology.h"
#include "report/terminal.h"

namespace ridge::report {

// Sockets, cores, caches and GPUs in a line without a newline.
std::string topology_line(const record::Topology& topology);
// A line for each performance warning for kernels on so many threads.
std::string performance_warning_lines(const record::Topology& topology, int threads);
// Both with the tables of caches, nodes and GPUs.
std::string topology_text(const record::Topology& topology,
                          int threads,
                          const TerminalOptions& options);
std::string topology_json(const record::Topology& topology, int threads);

}  // namespace ridge::report
