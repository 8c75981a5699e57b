// SPDX-License-Identifier: Apache-2.0
// What passes, costs and the planner may ask of a backend, without knowing which it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace ridge::plan {

// Scores that flash attention's tiles compute for one
// head and sequence, hidden ones in edge tiles included.
struct FlashScores {
  int64_t forward = 0;
  int64_t backward = 0;
};

// Where a graph's nodes without a path between them run side by side: the kernels that may start
// while the last user of a buffer still runs, before its bytes hold something else. None: one
// kernel runs at a time.
struct BranchSlack {
  int kernels = 0;
  // Where the last user is an update of the optimizer, which no other kernel waits for
  int updates = 0;
  bool any() const { return kernels > 0; }
};

class Target {
 public:
  virtual ~Target() = default;
  virtual std::string_view name() const = 0;  // "cpu", "cuda", "null"

  // Empty when a kernel runs the node, else what is missing.
  virtual std::string unsupported(const Graph& graph, const Node& node) const = 0;

  // Whether the node's kernel reads input i, or writes
  // output i, in this layout. Dense ones are always taken.
  virtual bool takes_input(const Graph& graph,
                           const Node& node,
                           int i,
                           const Layout& layout) const = 0;
  virtual bool takes_output(const Graph& graph,
                            const Node& node,
                            int i,
                            const Layout& layout) const = 0;

  // Whether input i may begin `offset` elements into its
  // buffer: kernels that read vectors want their multiples.
  virtual bool takes_start(const Graph&, const Node&, int /*i*/, int64_t /*offset*/) const {
    return true;
  }

  // Whether output o may overwrite the bytes of input i that nobody reads later (same type, dense).
  virtual bool runs_in_place(const Graph& graph, const Node& node, int o, int i) const = 0;

  // Scratch that the node's kernel needs while it runs.
  virtual int64_t workspace_bytes(const Graph& graph, const Node& node) const = 0;

  // Kernel calls that the node makes.
  virtual int launches(const Graph& graph, const Node& node) const = 0;

  // Trips to memory that wait for one another in those calls: what a short kernel's time is made
  // of. 0: not worth counting; of a matmul, that it is one of the products that ceilings sample.
  virtual int rounds(const Graph&, const Node&) const { return 0; }

  // Whether a run is recorded once and replayed: then the host's share of a launch does not count.
  virtual bool replays() const { return false; }

  // Whether weights never stay where the file has them: then stacking them costs nothing more.
  virtual bool owns_weights() const { return false; }

  // None where each kernel of the graph fills the target.
  virtual BranchSlack branch_slack(const Graph&) const { return {}; }

  virtual FlashScores flash_scores(const Call& attention) const = 0;
};

}  // namespace ridge::plan
