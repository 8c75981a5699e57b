// SPDX-License-Identifier: Apache-2.0
// Answers that depend on no particular machine: whatever some device could do in one kernel, this
// target does.
#include "backends/null/null_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "backends/cuda/passes/passes.h"
#include "backends/fragment_choice.h"
#include "backends/host_memory.h"
#include "base/error.h"
#include "base/fragment_tiles.h"
#include "ops/attention.h"

namespace ridge::backends::null {
namespace {

// Answers to passes.
template <typename Target>
class NullAnswers : public Target {
 public:
  explicit NullAnswers(const NullOptions& options) : options_(options) {
    if (options.query_tile < 1 || options.key_tile < 1)
      throw usage_error("[null] expected tiles of at least 1 x 1, got {} x {}", options.query_tile,
                        options.key_tile);
  }

  std::string_view name() const override { return "null"; }
  std::span<const passes::Pass* const> passes() const override { return cuda::passes(); }
  // Ridge's GPU kernels compute on plain types and on weights in fragment tiles, so a session packs
  // or unpacks a file's blocks.
  std::string unsupported(const Graph& graph, const Node& node) const override {
    for (ValueId input : node.inputs) {
      const DType dtype = graph.type(input).dtype;
      if (node.op->kind == OpKind::kView) continue;
      if (dtype == DType::kF16 && graph.value(input).storage == Storage::kTemporary)
        return "GPUs have no kernel for it in f16; expected --dtype bf16";
      if (is_fragments(dtype) && takes_fragments(graph, node)) continue;
      if (is_block(dtype) || dtype == DType::kF16)
        return fmt::format(
            "GPUs compute on f32 and bf16, not on {} as stored; expected +store_bf16 or +store_f32",
            ridge::name(dtype));
    }
    if (node.op->name == "matmul" && !takes_fragments(graph, node) &&
        graph.type(node.inputs[0]).dtype != graph.type(node.inputs[1]).dtype)
      return fmt::format(
          "GPUs multiply operands of one element type, not {} and {}; expected "
          "+store_f32, or +store_bf16 and +autocast_bf16",
          graph.type(node.inputs[0]).str(), graph.type(node.inputs[1]).str());
    const auto at_most = [&](size_t input, int64_t most) {
      const int64_t rows = graph.shape(node.inputs[input])[0];
      return rows <= most ? "" : fmt::format("expected at most {} rows, got {}", most, rows);
    };
    if (node.op->name == "append_attention") return at_most(2, 1);
    if (node.op->name == "skinny_gemm") return at_most(0, options_.skinny_gemm_rows);
    if (node.op->name == "all_reduce_add_rms_norm") return at_most(0, options_.normed_sum_rows);
    return "";
  }
  bool takes_input(const Graph&, const Node&, int, const Layout&) const override { return true; }
  bool takes_output(const Graph&, const Node&, int, const Layout&) const override { return true; }
  bool runs_in_place(const Graph&, const Node& node, int, int) const override {
    return node.op->kind == OpKind::kPointwise || node.op->name == "generated_pointwise";
  }
  int64_t workspace_bytes(const Graph&, const Node&) const override { return 0; }
  int launches(const Graph&, const Node&) const override { return 1; }
  bool calls_library(const Graph& graph, const Node& node) const override {
    const bool is_ours = node.attrs.flag("native") || multiplies_fragments(graph, node);
    return node.op->name == "matmul" && !is_ours;
  }
  // The price of a launch holds five. Products of fragment tiles take nine, and one for each
  // doubling of the rows (backends/cuda/skinny_gemm.h).
  int rounds(const Graph& graph, const Node& node) const override {
    if (!multiplies_fragments(graph, node)) return 0;
    return 4 + std::bit_width(static_cast<uint64_t>(graph.shape(node.inputs[0])[0] - 1));
  }
  bool replays() const override { return options_.replays; }
  bool owns_weights() const override { return true; }  // as GPUs do: projections are merged

  // A tile with at least one unmasked pair is computed completely.
  plan::FlashScores flash_scores(const Call& attention) const override {
    ops::AttentionShape s = ops::attention_shape("flash_attention", attention);
    int64_t scores = 0;
    for (int64_t begin = 0; begin < s.sequence; begin += options_.query_tile) {
      int64_t end = std::min(begin + options_.query_tile, s.sequence);
      int64_t last_key = s.causal ? end : s.sequence;
      int64_t first_key = s.causal && s.window > 0 ? std::max<int64_t>(0, begin - s.window + 1) : 0;
      int64_t first_tile = first_key / options_.key_tile,
              last_tile = ceil_div(last_key, options_.key_tile);
      int64_t keys =
          std::min(last_tile * options_.key_tile, s.sequence) - first_tile * options_.key_tile;
      scores += (end - begin) * keys;
    }
    return {scores, scores};
  }

 private:
  // Tables, and weights of bf16 activations.
  static bool takes_fragments(const Graph& graph, const Node& node) {
    if (node.op->name == "embedding") return true;
    return (node.op->name == "matmul" || node.op->name == "skinny_gemm") &&
           is_fragments(graph.type(node.inputs[1]).dtype) &&
           graph.type(node.inputs[0]).dtype == DType::kBF16;
  }

  // Our kernel unpacks tiles for so many rows in registers.
  static bool multiplies_fragments(const Graph& graph, const Node& node) {
    return node.op->name != "embedding" && takes_fragments(graph, node) &&
           is_multiplied_in_tiles(graph.shape(node.inputs[0])[0],
                                  graph.shape(node.inputs[1]).elements());
  }

  NullOptions options_;
};

class NullBackend final : public NullAnswers<Backend> {
 public:
  using NullAnswers::NullAnswers;

  std::unique_ptr<Memory> allocate(int64_t bytes, const char* what) override {
    return std::make_unique<HostMemory>(bytes, what);
  }
  void copy_in(std::byte* to, const void* from, int64_t bytes) override {
    std::copy_n(static_cast<const std::byte*>(from), bytes, to);
  }
  void copy_out(void* to, const std::byte* from, int64_t bytes) override {
    std::copy_n(from, bytes, static_cast<std::byte*>(to));
  }
  void synchronize() override {}
  Launch bind(const BindCall&) override {
    return [] {};
  }
};

}  // namespace

std::unique_ptr<passes::PassTarget> make_null_target(const NullOptions& options) {
  return std::make_unique<NullAnswers<passes::PassTarget>>(options);
}

std::unique_ptr<Backend> make_null_backend(const NullOptions& options) {
  return std::make_unique<NullBackend>(options);
}

}  // namespace ridge::backends::null
