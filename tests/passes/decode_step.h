// SPDX-License-Identifier: Apache-2.0
// A small model's decode graph after the forward passes for a GPU, with its reference in double
// precision. Tests of the passes that fuse the kernels of a decode step start from it.
#pragma once

#include <string>

#include "backends/cuda/passes/gemm_choices.h"
#include "backends/cuda/passes/passes.h"
#include "models/inference_names.h"
#include "passes/pass_trial.h"

namespace ridge::passes {

namespace cuda = backends::cuda;

// A target that behaves like the CPU backend, except that it supports kernels that only a GPU has.
class GpuKernels final : public PassTarget, public backends::cuda::GemmChoices {
 public:
  // As with tens of rows, a GEMM takes in a gated activation alone.
  bool gates_only = false;

  std::string_view name() const override { return "gpu_kernels"; }
  std::string unsupported(const Graph& g, const Node& n) const override {
    constexpr int64_t kFewRows = 8;
    const bool is_skinny = n.op->name == "skinny_gemm" && g.shape(n.inputs[0])[0] <= kFewRows &&
                           (!gates_only || (!n.attrs.text("activation").empty() &&
                                            !n.attrs.flag("norms") && !n.attrs.flag("residual")));
    bool is_made = is_skinny || n.op->name == "rope_append" || n.op->name == "append_attention" ||
                   n.op->name == "all_reduce_add_rms_norm";
    return is_made ? "" : target().unsupported(g, n);
  }
  bool takes_input(const Graph& g, const Node& n, int i, const Layout& l) const override {
    return target().takes_input(g, n, i, l);
  }
  bool takes_output(const Graph& g, const Node& n, int i, const Layout& l) const override {
    return target().takes_output(g, n, i, l);
  }
  bool runs_in_place(const Graph& g, const Node& n, int o, int i) const override {
    return target().runs_in_place(g, n, o, i);
  }
  int64_t workspace_bytes(const Graph&, const Node&) const override { return 0; }
  int launches(const Graph&, const Node&) const override { return 1; }
  bool owns_weights() const override { return true; }
  std::span<const Pass* const> passes() const override { return backends::cuda::passes(); }
  bool has_native_gemm(const Call& matmul) const override {
    return matmul.inputs[0].dtype == DType::kF32 && matmul.inputs[1].dtype == DType::kF32;
  }
  // Operand 1 where the depth (K) is the first axis of both operands.
  int transposed_operand(const Call& matmul) const override {
    const std::string& einsum = matmul.attrs.text("einsum");
    return einsum[0] == einsum[einsum.find(',') + 1] ? 1 : -1;
  }
  bool prefers_streamed_gemm(const Shape&, const Shape&, bool) const override { return false; }
  plan::FlashScores flash_scores(const Call& call) const override {
    return target().flash_scores(call);
  }
};

class DecodeStep {
 public:
  // `more` passes, after a comma.
  explicit DecodeStep(models::Family family,
                      DType cache = DType::kF32,
                      const std::string& more = "") {
    models::ModelConfig config = one_layer();
    config.family = family;
    config.layers = 2;
    config.context = 16;
    if (family == models::Family::kGemma3) {
      config.is_window_layer = {true, false};
      config.window = 4;
    }
    models::InferenceShape shape{models::InferenceTask::kDecode, kSlots, 16, true,
                                 models::cache_shape({.slots = kSlots,
                                                      .capacity = 16,
                                                      .window = config.window,
                                                      .chunk = 4,
                                                      .dtype = cache})};
    models::ForwardGraph forward = models::build_inference_graph(
        config, ops::table(), shape, [](const std::string& parameter, const Shape& extents) {
          return models::StoredWeight{parameter, extents.rank() == 2 ? DType::kBF16 : DType::kF32};
        });
    load_ = forward.load;
    PassContext context{ops::table(), target_, load_, nullptr, target_.passes()};
    graph_ = run_stage(Stage::kForward, forward.graph,
                       Selection("kernels", "+store_bf16,+autocast_bf16" + more), context, nullptr);
  }

  const Graph& graph() const { return graph_; }
  void take_gates_only() { target_.gates_only = true; }
  // The graph after fuse_rope_append.
  Graph appended() { return run(backends::cuda::fuse_rope_append_pass, graph_); }
  Graph run(const Pass& pass, const Graph& graph) {
    PassContext context{ops::table(), target_, load_};
    Graph made = pass.run(graph, context);
    verify(made);
    verify_origins(graph, made);
    return made;
  }
  // Checks a pass against its golden texts, double-precision results and a lower planned cost, and
  // that it leaves the graph alone on a target without the fused kernel. Returns the rewritten
  // graph.
  Graph try_pass(const Pass& pass, const Graph& before) {
    constexpr double kRounding = 1e-10;  // double sums in another order
    Graph made = run(pass, before);
    expect_golden(fmt::format("{}.before.txt", pass.name), print(before));
    expect_golden(fmt::format("{}.after.txt", pass.name), print(made));
    EXPECT_LE(distance(before, made), kRounding);
    PlannedCost was = planned_cost(before, target_), is = planned_cost(made, target_);
    EXPECT_LT(is.launches, was.launches);
    EXPECT_LT(is.bytes, was.bytes);
    LoadGraph load;
    PassContext portable{ops::table(), target(), load};
    EXPECT_EQ(print(pass.run(before, portable)), print(before));
    return made;
  }
  // The largest difference between the logits, caches and tokens that the two graphs compute.
  static double distance(const Graph& a, const Graph& b) {
    ops::NamedTensors named = operands(a);
    ops::ReferenceRun first(a, named), second(b, named);
    double most = 0;
    auto compare = [&](const std::vector<double>& x, const std::vector<double>& y) {
      EXPECT_EQ(x.size(), y.size());
      for (size_t i = 0; i < x.size(); ++i) most = std::max(most, std::abs(x[i] - y[i]));
    };
    compare(first[a.outputs[0]], second[b.outputs[0]]);
    ops::NamedTensors left = second.stored();
    for (const auto& [name, tensor] : first.stored()) compare(tensor.data, left.at(name).data);
    return most;
  }

 private:
  static constexpr int64_t kSlots = 3;

  static ops::NamedTensors operands(const Graph& graph) {
    ops::NamedTensors named;
    Random random(3);
    for (const Value& value : graph.values) {
      if (value.producer != kNoNode) continue;
      Fill fill;
      if (value.type.dtype == DType::kI32) fill = {Fill::kPositions, 3, false};  // 0, 1, 2
      if (value.name == models::kSampling) fill = {Fill::kConstant, 0, false};
      named[value.name] = ops::draw(value.type, fill, random);
    }
    // A token past its window, one near the beginning, and padding.
    named.at(models::bucket_input(models::kPositions, kSlots)).data = {9, 1, -1};
    return named;
  }

  GpuKernels target_;
  LoadGraph load_;
  Graph graph_;
};

}  // namespace ridge::passes
