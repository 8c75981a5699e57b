// SPDX-License-Identifier: Apache-2.0
// Builds a module of a configuration at a phase and a size, in Ridge's forms; counts unfused bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/graph_trial.h"
#include "bench/op_shapes.h"
#include "models/module_graph.h"

namespace ridge::bench {

// kUncachedDecode: one token, and keys and values of all tokens before it projected again from the
// layer's inputs.
enum class ModulePhase : uint8_t { kTrain, kPrefill, kDecode, kUncachedDecode };
std::string_view name(ModulePhase phase);
std::optional<ModulePhase> parse_phase(std::string_view name);
inline bool is_decode(ModulePhase phase) { return phase >= ModulePhase::kDecode; }

struct ModuleRequest {
  models::Module module = models::Module::kMlp;
  ModulePhase phase = ModulePhase::kPrefill;
  int64_t batch = 1;
  int64_t length = 512;  // tokens of a sequence; in decode the keys of its context
  int64_t layer = 0;
  TrialType type;
};

// A module is run by passes over a level, from one kernel a primitive to all that is known.
struct ModuleForm {
  std::string_view name;
  std::string_view summary;
  std::string_view level;
  std::string_view switches;
  bool gpu_only = false;
  bool is_in_all = true;  // false: only where it is named
};
std::span<const ModuleForm> module_forms();
// "all" (those that the device has, without rare ones), or a list of names. Throws usage Errors.
std::vector<ModuleForm> choose_forms(const std::string& names, bool on_gpu);

// Throws usage Errors for sizes and types that cannot be.
TrialGraph build_module(const models::ModelConfig& config, const ModuleRequest& request);

// Adds the projections of keys and values of so many earlier tokens of each sequence. Throws usage
// Errors for other modules than attention and layer, and for weights in blocks.
void project_again(const models::ModelConfig& config,
                   const ModuleRequest& request,
                   int64_t tokens,
                   Graph& graph);

// Bytes of unfused kernels (docs/accounting.md): an unfused MLP, and attention whose softmax passes
// seven times over the scores, with its projections. Empty for other modules and weights in blocks.
std::optional<int64_t> unfused_bytes(const models::ModelConfig& config,
                                     const ModuleRequest& request);
// Attention alone reads q, k, v and writes o once, and passes its B H Lq Lkv scores seven times.
struct UnfusedAttention {
  int64_t batch = 1, heads = 1, queries = 1, keys = 1, head_size = 1;
};
int64_t three_pass_softmax_bytes(const UnfusedAttention& attention, int64_t element_bytes);

// Sets the limit and the bound of a point to those of its unfused bytes: all FLOPs at the peak of
// GEMMs in `dtype`, or these bytes at the bandwidth of memory. Predictions are of Ridge's kernels,
// so a point that did not run has none any more.
void limit_by_unfused_bytes(const cost::Ceilings& ceilings, DType dtype, record::BenchPoint& point);

// A name that --bytes takes for the bytes of unfused kernels.
struct BytesName {
  std::string_view name;
  std::string_view summary;
};
// Empty until the program adds names, at its start.
std::vector<BytesName>& unfused_bytes_names();
// Throws a usage Error for another name than "ridge" and these.
void check_bytes_name(const std::string& name);
// Says what --bytes takes.
std::string bytes_help();

}  // namespace ridge::bench
