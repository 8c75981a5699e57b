// SPDX-License-Identifier: Apache-2.0
// Builds modules as trials.
#include "bench/module_trial.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/printable.h"
#include "base/split.h"
#include "graph/builder.h"
#include "models/inference_names.h"
#include "ops/build.h"
#include "ops/registry.h"

namespace ridge::bench {
namespace {

constexpr std::array kPhases = {"train", "prefill", "decode", "uncached-decode"};

constexpr std::array kForms = {
    ModuleForm{"eager", "one kernel a primitive; the tanh GELU is its eight", "baseline",
               "+split_activations"},
    ModuleForm{"eager-library",
               "one kernel an op of a library of kernels: the tanh GELU is one of an MLP's five",
               "baseline", "", false, false},
    ModuleForm{"generated",
               "the same, with one generated kernel per cluster of pointwise operations",
               "baseline", "+split_activations,+generate_pointwise"},
    ModuleForm{"fused", "hand-written kernels, merged projections and flash attention", "kernels",
               ""},
    ModuleForm{"captured", "the fused form, replayed as one CUDA graph", "kernels", "+capture",
               true},
    ModuleForm{"tuned",
               "the fused form with generated kernels and GEMM algorithms chosen by timing",
               "compiled", "-capture,-branches"}};

int64_t tokens(const ModuleRequest& r) { return is_decode(r.phase) ? 1 : r.length; }

// A node that reads a weight is a region of its own: "layer/attention/q_proj".
void name_regions(Graph& graph) {
  for (Node& node : graph.nodes)
    for (const ValueId input : node.inputs) {
      const Value& value = graph.value(input);
      if (value.storage != Storage::kParameter || !value.name.ends_with(".weight")) continue;
      const std::string path = value.name.substr(0, value.name.rfind('.'));
      node.scope += "/" + path.substr(path.rfind('.') + 1);
    }
}

}  // namespace

std::string_view name(ModulePhase phase) { return kPhases[static_cast<size_t>(phase)]; }

std::optional<ModulePhase> parse_phase(std::string_view text) {
  for (size_t i = 0; i < kPhases.size(); ++i)
    if (kPhases[i] == text) return static_cast<ModulePhase>(i);
  return std::nullopt;
}

std::span<const ModuleForm> module_forms() { return kForms; }

std::vector<ModuleForm> choose_forms(const std::string& names, bool on_gpu) {
  std::vector<ModuleForm> offered, chosen;
  std::string known;
  for (const ModuleForm& each : kForms)
    if (on_gpu || !each.gpu_only) {
      offered.push_back(each);
      known += (known.empty() ? "" : ", ") + std::string(each.name);
    }
  if (names == "all") {
    std::erase_if(offered, [](const ModuleForm& form) { return !form.is_in_all; });
    return offered;
  }
  for (const std::string& each : split(names)) {
    const auto found = std::find_if(offered.begin(), offered.end(),
                                    [&](const ModuleForm& form) { return form.name == each; });
    if (found == offered.end())
      throw usage_error("[form] expected all or some of {}{}, got {}", known,
                        on_gpu ? "" : " (captured needs a GPU)", printable(each));
    chosen.push_back(*found);
  }
  return chosen;
}

void project_again(const models::ModelConfig& config,
                   const ModuleRequest& r,
                   int64_t tokens,
                   Graph& graph) {
  if (r.module != models::Module::kAttention && r.module != models::Module::kLayer)
    throw usage_error("[phase] expected the attention or the layer in uncached-decode, got {}",
                      models::name(r.module));
  if (is_block(r.type.weights))
    throw usage_error("[phase] expected no weights in blocks in uncached-decode, got {}",
                      r.type.name);
  if (tokens < 1)
    throw usage_error("[context] expected at least 2 keys in uncached-decode, got {}", r.length);
  const int64_t rows = checked_product(r.batch, tokens, "batch x context");
  if (rows > models::kMostTokens)
    throw memory_error("[context] expected at most {} tokens in one run, got {}",
                       models::kMostTokens, rows);
  Builder b(graph, ops::table());
  const int64_t width = config.kv_heads * config.head_size;
  const ValueId earlier = b.input("earlier tokens", {r.type.activations, {rows, config.hidden}});
  for (const char* name : {"keys' weight", "values' weight"})
    graph.outputs.push_back(ops::matmul(b, "nd,fd->nf", earlier,
                                        b.input(name, {r.type.weights, {width, config.hidden}})));
}

TrialGraph build_module(const models::ModelConfig& config, const ModuleRequest& r) {
  if (r.length > models::kMostContext)
    throw usage_error("[seq-len] expected at most {}, got {}", models::kMostContext, r.length);
  models::ModuleShape shape;
  shape.batch = r.batch;
  shape.tokens = tokens(r);
  shape.context = is_decode(r.phase) ? r.length : 0;
  shape.layer = r.layer;
  shape.is_last_row = r.phase == ModulePhase::kPrefill;
  shape.activations = r.type.activations;
  const auto lookup = [&](const std::string& parameter, const Shape& extents) {
    const bool is_matrix = extents.rank() == 2;
    const int64_t block = base::info(r.type.weights).elements_per_block;
    if (is_matrix && extents[1] % block != 0)
      throw usage_error("[dtype] expected rows of whole blocks of {}, {}, got {} for {}",
                        r.type.name, block, extents[1], parameter);
    return models::StoredWeight{parameter, is_matrix ? r.type.weights : DType::kF32};
  };
  models::ForwardGraph built = models::build_module(config, ops::table(), r.module, shape, lookup);
  name_regions(built.graph);
  if (r.phase == ModulePhase::kUncachedDecode) project_again(config, r, r.length - 1, built.graph);
  TrialGraph trial{std::move(built.graph), {}, std::move(built.load)};
  const double count = static_cast<double>(r.batch);
  trial.fills[std::string(models::kIds)] = {Fill::kIds, static_cast<double>(config.vocabulary),
                                            false};
  trial.fills[std::string(models::kPositions)] =
      shape.context > 0 ? Fill{Fill::kConstant, static_cast<double>(r.length - 1), false}
                        : Fill{Fill::kPositions, static_cast<double>(r.length), false};
  trial.fills[std::string(models::kSlots)] = {Fill::kPositions, count, false};
  trial.fills[models::kBlockTable] = {Fill::kPositions, count, false};
  return trial;
}

std::vector<BytesName>& unfused_bytes_names() {
  static std::vector<BytesName> names;
  return names;
}

void check_bytes_name(const std::string& name) {
  std::string known = "ridge";
  for (const BytesName& each : unfused_bytes_names()) {
    if (each.name == name) return;
    known += fmt::format(" or {}", each.name);
  }
  if (name != "ridge") throw usage_error("[bytes] expected {}, got {}", known, printable(name));
}

std::string bytes_help() {
  std::string help = "convention of the bytes: ridge";
  for (const BytesName& each : unfused_bytes_names())
    help += fmt::format(", or {}: {}", each.name, each.summary);
  return help;
}

void limit_by_unfused_bytes(const cost::Ceilings& ceilings,
                            DType dtype,
                            record::BenchPoint& point) {
  if (!point.unfused_bytes || point.predicted_ns == 0) return;
  const double compute_ns =
                   static_cast<double>(point.work.flops) / ceilings.peak_flops_per_ns(dtype),
               memory_ns =
                   static_cast<double>(*point.unfused_bytes) / ceilings.memory_bytes_per_ns();
  point.limit_ns = std::max(compute_ns, memory_ns);
  point.bound = compute_ns >= memory_ns ? cost::Bound::kCompute : cost::Bound::kMemory;
  point.level.clear();
  if (!point.is_measured()) point.predicted_ns = point.limit_ns;
}

int64_t three_pass_softmax_bytes(const UnfusedAttention& a, int64_t element_bytes) {
  const int64_t rows = 2 * a.batch * a.heads * (a.queries + a.keys) * a.head_size;
  return element_bytes * (rows + 7 * a.batch * a.heads * a.queries * a.keys);
}

std::optional<int64_t> unfused_bytes(const models::ModelConfig& config, const ModuleRequest& r) {
  if (is_block(r.type.weights) ||
      (r.phase != ModulePhase::kPrefill && r.phase != ModulePhase::kDecode))
    return std::nullopt;
  const int64_t n = r.batch * tokens(r), d = config.hidden, f = config.feed_forward;
  const int64_t width = storage_bytes(r.type.activations, 1);
  // A GEMM reads both operands and writes its result.
  auto gemm = [&](int64_t in, int64_t out) { return n * in + in * out + n * out; };
  if (r.module ==
      models::Module::
          kMlp)  // two products, GELU (read, write), product (two reads, a write), a product
    return width * (2 * gemm(d, f) + 2 * n * f + 3 * n * f + gemm(f, d));
  if (r.module != models::Module::kAttention) return std::nullopt;
  const int64_t q = config.heads * config.head_size, kv = config.kv_heads * config.head_size;
  const UnfusedAttention core{r.batch, config.heads, tokens(r), r.length, config.head_size};
  return width * (gemm(d, q) + 2 * gemm(d, kv) + gemm(q, d)) +
         three_pass_softmax_bytes(core, width);
}

}  // namespace ridge::bench
