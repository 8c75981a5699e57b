// SPDX-License-Identifier: Apache-2.0
// The backend interface that passes, costs and the planner use, independent of the backend.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace ridge::plan {

// Scores that flash attention's tiles compute for one head and sequence, including masked scores in
// edge tiles.
struct FlashScores {
  int64_t forward = 0;
  int64_t backward = 0;
  // A pass of its own for dQ computes so many of the backward scores again; 0 if there is none.
  int64_t recomputed = 0;
};

// For targets that run independent nodes concurrently: the number of kernels that may start while
// the last user of a buffer still runs, before the planner reuses its bytes. 0: one kernel runs at
// a time.
struct BranchSlack {
  int kernels = 0;
  // The same if the last user is an optimizer update, which no other kernel waits for.
  int updates = 0;
  // Only collectives, and updates in the background, run next to another kernel: kernels that fill
  // the device gain nothing from each other's company.
  bool chains_kernels = false;
  bool any() const { return kernels > 0; }
};

class Target {
 public:
  virtual ~Target() = default;
  virtual std::string_view name() const = 0;  // "cpu", "cuda", "null"

  // Empty if a kernel runs the node; otherwise the reason why none does.
  virtual std::string unsupported(const Graph& graph, const Node& node) const = 0;

  // Whether the node's kernel can read input i, or write output i, in this layout. Dense layouts
  // are always accepted.
  virtual bool takes_input(const Graph& graph,
                           const Node& node,
                           int i,
                           const Layout& layout) const = 0;
  virtual bool takes_output(const Graph& graph,
                            const Node& node,
                            int i,
                            const Layout& layout) const = 0;

  // Whether input i may begin `offset` elements into its buffer. Kernels that load vectors need
  // aligned offsets.
  virtual bool takes_start(const Graph&, const Node&, int /*i*/, int64_t /*offset*/) const {
    return true;
  }

  // Whether output o may overwrite the bytes of input i if no other node reads them later (same
  // type, dense).
  virtual bool runs_in_place(const Graph& graph, const Node& node, int o, int i) const = 0;

  // Scratch that the node's kernel needs while it runs.
  virtual int64_t workspace_bytes(const Graph& graph, const Node& node) const = 0;

  // The number of kernel calls for the node.
  virtual int launches(const Graph& graph, const Node& node) const = 0;

  // Dependent memory round trips in those calls, which make up most of a short kernel's time. 0 if
  // they are not counted. For a matmul, 0 means one of the GEMMs that calibration samples.
  virtual int rounds(const Graph&, const Node&) const { return 0; }

  // Whether one of those calls is a library's, for which the host takes longer.
  virtual bool calls_library(const Graph&, const Node&) const { return false; }

  // Threads share the work of the node's kernel if these bytes are enough, or, if empty, the bytes
  // of its operands.
  virtual std::optional<int64_t> shared_bytes(const Graph&, const Node&) const { return {}; }

  // Whether a run is recorded once and replayed, so that the host's launch time does not count.
  virtual bool replays() const { return false; }

  // Whether weights are always copied out of the file, so that stacking them has no additional
  // cost.
  virtual bool owns_weights() const { return false; }

  // 0 if each kernel of the graph fills the device.
  virtual BranchSlack branch_slack(const Graph&) const { return {}; }

  virtual FlashScores flash_scores(const Call& attention) const = 0;
};

}  // namespace ridge::plan
