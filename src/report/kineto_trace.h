// SPDX-License-Identifier: Apache-2.0
// Writes a trace in the shape of PyTorch's profiler (Kineto), which Perfetto and the tools for
// PyTorch's traces open. It shows the instrumented step with the median wall time: the host with
// its step, operations and launches, the kernels on streams, scopes and phases, and a counter of
// live memory by class. Each launch has a flow to its kernels, and kernels carry their counts.
// Each of several ranks is one process.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "record/exchange_record.h"
#include "record/lab_record.h"

namespace ridge::report {

// Perfetto's page stays responsive up to this size.
inline constexpr int64_t kTraceCapBytes = int64_t{64} << 20;

// Who opens the trace. TensorBoard's plugin for PyTorch's profiler (0.4) knows the host's calls as
// "runtime" instead of "cuda_runtime", and live memory by events of its own.
enum class TraceReader : uint8_t { kPerfetto, kTensorBoard };

struct Trace {
  std::string text;
  int64_t events = 0;
  int64_t dropped_events = 0;  // omitted to stay under the cap
  std::string warning;         // empty if no event was dropped
};

// A trace of one run of the lab. The text is valid JSON for any cap; it may exceed the cap by one
// event and the opening and closing lines. `file_name` is for the warning.
Trace kineto_trace(const record::LabRecord& lab,
                   const record::RunRecord& run,
                   const std::string& file_name,
                   int64_t cap_bytes = kTraceCapBytes,
                   TraceReader reader = TraceReader::kPerfetto);

// A rank's part of the traces of a run of several: the events of its lane, with its number as the
// process. Sets how many there are too. Tools for PyTorch's traces find communication by the names
// of NCCL's kernels, so collectives of ranks on CPUs are named like them.
void write_lane(const record::RunRecord& run,
                int64_t ranks,
                int64_t begin_ns,
                record::RankLane& lane);
// The trace of all ranks, or of one: `rank` is -1 or an index of the lanes.
Trace ranks_trace(const record::LabRecord& lab,
                  const record::RunRecord& run,
                  std::span<const record::RankLane> lanes,
                  const std::string& file_name,
                  int64_t rank);

}  // namespace ridge::report
