// SPDX-License-Identifier: Apache-2.0
// What is made of the list of passes: the pipeline of a target, the levels that name subsets of it,
// and running a stage: each pass timed, the graph verified after it, its cost recorded before and
// after.
#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost/pass_record.h"
#include "passes/pass.h"

namespace ridge::passes {

// A line of the list in passes.h.
struct Listed {
  std::string_view name;
  std::string_view backend;  // that has it, or "all"
  std::string_view level;    // that adds it, or "none"
  const Pass* pass;          // null where a backend has it
};
std::span<const Listed> list();

// This room's passes and a backend's own, in the order of the list.
std::vector<const Pass*> pipeline(std::span<const Pass* const> own);

// A level is the passes and binding options that it adds to the level before it. A target that
// lacks a pass goes without.
struct Level {
  std::string_view name;
  std::string_view summary;
  std::vector<std::string_view> adds;
};
std::span<const Level> levels();

// Names of passes and options that are on.
class Selection {
 public:
  // The cumulative set of a level, changed by a switch text such as "+recompute,-fuse_glu". Throws
  // usage Errors that list the known names.
  Selection(std::string_view level, std::string_view switches);
  bool has(std::string_view name) const { return on_.contains(std::string(name)); }
  const std::string& level() const { return level_; }
  // The type in which kernels hand activations on, and KV entries with them.
  DType activations() const { return has("autocast_bf16") ? DType::kBF16 : DType::kF32; }
  std::string str() const;

 private:
  std::string level_;
  std::set<std::string> on_;
};

// Binding options that share the switch syntax with passes.
std::span<const std::string_view> options();

// The passes of one stage that are selected, in order: this room's and the context's own.
Graph run_stage(Stage stage,
                const Graph& graph,
                const Selection& selection,
                PassContext& context,
                std::vector<cost::PassRecord>* records);

}  // namespace ridge::passes
