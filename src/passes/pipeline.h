// SPDX-License-Identifier: Apache-2.0
// The pipeline of a target, the levels that name subsets of the passes, and running a stage: each
// pass is timed, the graph is verified after it, and its cost is recorded before and after.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
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
  std::string_view backend;  // the backend that has it, or "all"
  std::string_view level;    // the level that adds it, or "none"
  const Pass* pass;          // null if a backend has it
};
std::span<const Listed> list();

// The passes of src/passes and a backend's own, in the order of the list.
std::vector<const Pass*> pipeline(std::span<const Pass* const> own);

// Whether no graph runs without the pass, so that it cannot be turned off.
bool is_required(std::string_view name);

// A level is the set of passes and binding options that it adds to the level before it. A pass that
// the target does not have is skipped.
struct Level {
  std::string_view name;
  std::string_view summary;
  std::vector<std::string_view> adds;
};
std::span<const Level> levels();

// A name of a switch text such as "+recompute=4,-fuse_glu"; a name without a sign is on.
struct Switch {
  std::string_view name;
  bool is_on = true;
  std::optional<int64_t> number = {};  // recompute takes layers, quantize_activations bits
};
// Throws usage Errors that list the known names.
std::vector<Switch> parse_switches(std::string_view text);

// Throws a usage Error for a switch that changes nothing: of a pass that the target does not have
// or that is for the other kind of graph, of a GPU's option elsewhere, or of a name that is also
// switched the other way. `own` are the target's passes.
void expect_effect(std::string_view switches,
                   Serves serves,
                   std::span<const Pass* const> own,
                   bool on_gpu);
inline void expect_effect(std::string_view switches, Serves serves, const PassTarget& target) {
  expect_effect(switches, serves, target.passes(), target.name() != "cpu");
}

// The names of the passes and options that are on.
class Selection {
 public:
  // The cumulative set of a level, modified by a switch text such as "+recompute,-fuse_glu". Throws
  // usage Errors that list the known names.
  Selection(std::string_view level, std::string_view switches);
  bool has(std::string_view name) const { return on_.contains(std::string(name)); }
  const std::string& level() const { return level_; }
  // The number that a pass was switched on with.
  std::optional<int64_t> number(std::string_view name) const;
  // The name as in a switch text: "recompute=4".
  std::string spelling(std::string_view name) const;
  // The dtype of activations that kernels store, and of KV entries.
  DType activations() const {
    return has("autocast_bf16") ? DType::kBF16 : has("autocast_f16") ? DType::kF16 : DType::kF32;
  }
  // The number of ranks that share the model.
  int64_t tensor_ranks() const { return number("shard_tensor_parallel").value_or(1); }
  // The type of GEMMs, as --dtype spells it: "fp32", "tf32", "bf16" or "fp16".
  std::string_view gemm_dtype() const {
    return has("autocast_bf16")  ? "bf16"
           : has("autocast_f16") ? "fp16"
           : has("tf32")         ? "tf32"
                                 : "fp32";
  }
  std::string str() const;

 private:
  std::string level_;
  std::set<std::string> on_;
  std::map<std::string, int64_t> numbers_;
};

// How a backend runs the graph. --pass switches these options as it switches passes; they do not
// change the graph.
struct Option {
  std::string_view name;
  std::string_view level;  // the level that adds it, or "none"
  bool gpu_only;
  std::string_view summary;
};
std::span<const Option> options();

// Runs the selected passes of one stage in order: those of src/passes and the context's own.
Graph run_stage(Stage stage,
                const Graph& graph,
                const Selection& selection,
                PassContext& context,
                std::vector<cost::PassRecord>* records);

}  // namespace ridge::passes
