// SPDX-License-Identifier: Apache-2.0
// Targets that run nothing, for tests of planning and prediction.
#pragma once

#include <string>
#include <string_view>

#include "plan/target.h"

namespace ridge::plan {

// Every op is one launch on dense operands, with nothing in place and no workspace.
class PlainTarget : public Target {
 public:
  std::string_view name() const override { return "plain"; }
  std::string unsupported(const Graph&, const Node&) const override { return ""; }
  bool takes_input(const Graph&, const Node&, int, const Layout&) const override { return false; }
  bool takes_output(const Graph&, const Node&, int, const Layout&) const override { return false; }
  bool runs_in_place(const Graph&, const Node&, int, int) const override { return false; }
  int64_t workspace_bytes(const Graph&, const Node&) const override { return 0; }
  int launches(const Graph&, const Node&) const override { return 1; }
  FlashScores flash_scores(const Call&) const override { return {}; }
};

// Accepts any layout, updates in place, and needs workspace for some ops.
class GreedyTarget final : public PlainTarget {
 public:
  explicit GreedyTarget(int branch_slack = 0) : branch_slack_(branch_slack) {}
  bool takes_input(const Graph&, const Node&, int, const Layout&) const override { return true; }
  bool takes_output(const Graph&, const Node&, int, const Layout&) const override { return true; }
  bool runs_in_place(const Graph&, const Node&, int, int) const override { return true; }
  int64_t workspace_bytes(const Graph&, const Node& node) const override {
    return node.op->name == "softmax" ? 100 : node.op->name == "matmul" ? 64 : 0;
  }
  BranchSlack branch_slack(const Graph&) const override {
    return {branch_slack_, 3 * branch_slack_};
  }

 private:
  int branch_slack_;
};

}  // namespace ridge::plan
