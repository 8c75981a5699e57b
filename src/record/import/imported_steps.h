// SPDX-License-Identifier: Apache-2.0
// The steps of a trace: which operations ran in each, where in the model, and when. imported_run.h
// makes a run's record of them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "record/import/foreign_trace.h"
#include "record/import/serving_batch.h"

namespace ridge::record {

struct ImportedOperation {
  std::string_view op;  // the table's, the optimizer's, or the trace's own name
  uint32_t name = 0;    // NameTable: as the trace has it
  uint32_t scope = 0;   // index into scopes
  Phase phase = Phase::kForward;
  int32_t step = 0;    // index into steps
  int32_t call = -1;   // index into the trace's calls, or -1
  int32_t batch = -1;  // index into batches, or -1
  int64_t begin_ns = 0;
};

// When an operation ran on its device; on a GPU one for each kernel.
struct ImportedSpan {
  uint32_t operation = 0;
  int64_t begin_ns = 0, end_ns = 0;
  bool continues = false;  // a call that was interrupted
};

struct ImportedStep {
  int64_t begin_ns = 0, end_ns = 0;
};

// Where the time of operations went, over all steps.
struct Attribution {
  int64_t known_ns = 0;      // operations of the table
  int64_t composite_ns = 0;  // in composites of the table, outside of the operations in them
  int64_t frame_ns = 0;      // in frames of the framework, such as an autograd node, likewise
  int64_t unknown_ns = 0;    // operations and kernels that the table does not have
  int64_t uncounted_ns = 0;  // the part of known_ns whose work and bytes were not recorded
  int64_t replayed_ns = 0;   // the part of uncounted_ns in replayed graphs
  int64_t graph_ns = 0;      // in replayed graphs, joined to a capture or not
  int64_t compiled_ns = 0;   // in compiled code on a host, whose kernels have no events
  int64_t outside_ns = 0;    // kernels launched outside of the steps; no part of the rest
  int64_t outside_kernels = 0;
  bool has_shapes = false;                 // some operation's operands are recorded
  std::map<std::string, int64_t> unknown;  // by name

  int64_t all_ns() const { return known_ns + composite_ns + frame_ns + compiled_ns + unknown_ns; }
  double share(int64_t part_ns) const;  // the share of the whole time
  double attributed_share() const { return share(known_ns + composite_ns + compiled_ns); }
};

struct ImportedSteps {
  std::vector<ImportedStep> steps;
  std::vector<ImportedOperation> operations;
  std::vector<ImportedSpan> spans;  // by begin
  std::vector<std::string> scopes;
  Attribution attribution;
  int64_t parameters = 0;  // the first step accumulates their gradients
  std::vector<ServingBatch> batches;
  bool is_on_device = false;          // times are of kernels
  bool is_stepped_on_device = false;  // steps are annotations on the device
  bool has_backward = false;
  bool is_compiled = false;
  std::deque<std::string> optimizers;  // names
};

// The trace must outlive the result. Throws a bad-file Error for a trace without operations.
ImportedSteps imported_steps(const ForeignTrace& trace);

// Gives the trace the graphs that were captured during another one, so that the kernels of their
// replays are the operations of the capture. Throws a bad-file Error for a trace without a capture.
void join_capture(ForeignTrace& trace, const ForeignTrace& capture);

}  // namespace ridge::record
