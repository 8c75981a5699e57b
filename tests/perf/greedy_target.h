// SPDX-License-Identifier: Apache-2.0
// A target that grants whatever a planner may ask for.
#pragma once

#include <string>
#include <string_view>

#include "perf/target.h"

namespace ridge::perf {

// Takes any layout, updates in place, and wants scratch for some ops.
class GreedyTarget final : public Target {
 public:
  explicit GreedyTarget(int branch_slack = 0) : branch_slack_(branch_slack) {}
  std::string_view name() const override { return "greedy"; }
  std::string unsupported(const Graph&, const Node&) const override { return ""; }
  bool takes_input(const Graph&, const Node&, int, const Layout&) const override { return true; }
  bool takes_output(const Graph&, const Node&, int, const Layout&) const override { return true; }
  bool runs_in_place(const Graph&, const Node&, int, int) const override { return true; }
  int64_t workspace_bytes(const Graph&, const Node& node) const override {
    return node.op->name == "softmax" ? 100 : node.op->name == "matmul" ? 64 : 0;
  }
  int launches(const Graph&, const Node&) const override { return 1; }
  BranchSlack branch_slack(const Graph&) const override {
    return {branch_slack_, 3 * branch_slack_};
  }
  FlashScores flash_scores(const Call&) const override { return {}; }

 private:
  int branch_slack_;
};

}  // namespace ridge::perf
