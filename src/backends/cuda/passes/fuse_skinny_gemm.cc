// SPDX-License-Identifier: Apache-2.0
// fuse_skinny_gemm: a GEMM of a few rows takes in the norm before it, with the sum that it norms,
// and the gated activation or the residual sum after it, so that a step of a few tokens needs few
// kernels. It applies only if the target has that kernel, which with tens of rows takes in the
// activation alone. Nodes that lose all their readers are removed.
#include <algorithm>
#include <array>

#include "backends/cuda/passes/gemm_choices.h"
#include "backends/cuda/passes/passes.h"
#include "base/fragment_tiles.h"
#include "graph/rewrite_rule.h"
#include "ops/pointwise.h"
#include "ops/registry.h"
#include "passes/gemm_nodes.h"
#include "passes/nodes.h"

namespace ridge::backends::cuda {
namespace {

// --- Patterns. ---

// The kernel reads activations and weights of one type, or weights in fragment tiles.
bool is_skinny_gemm(const Graph& graph, const Node& matmul) {
  const DType weight = graph.type(matmul.inputs[1]).dtype;
  return passes::is_projection(graph, matmul) &&
         (is_fragments(weight) || graph.type(matmul.inputs[0]).dtype == weight);
}

Pattern product_of(Pattern x) {
  return node_of(ops::matmul_op(), {std::move(x), any("weight")})
      .where(is_skinny_gemm)
      .as("product");
}

// A norm that only the product reads, together with what comes before it: a sum of which one part
// is normed, any other sum, or no sum.
Pattern normed_product() {
  auto normed = [](Pattern norm) { return product_of(std::move(norm).as("normed").once()); };
  auto normed_sum = [&](Pattern x, Pattern y) {
    return normed(
        node_of(ops::add_rms_norm_op(), {std::move(x), std::move(y), any("norm")}).output(1));
  };
  Pattern delta =
      node_of(ops::rms_norm_op(), {any("delta"), any("delta_norm")}).as("delta_normed").once();
  return either({normed_sum(any("x"), delta), normed_sum(delta, any("x")),
                 normed_sum(any(""), any("")),
                 normed(node_of(ops::rms_norm_op(), {any("x"), any("norm")}))});
}

Pattern product() { return either({normed_product(), product_of(any("x"))}); }

// A gated activation whose gate and up are the halves of one product.
Pattern gated(Pattern product) {
  return node_of(ops::glu_op(), {node_of(ops::slice_op(), {std::move(product)}).as("gate"),
                                 node_of(ops::slice_op(), {any("product")}).as("up")});
}

// The sum of a product that nothing else reads and an earlier value. A norm may follow, fused with
// the sum.
Pattern residual_sum() {
  Pattern added = product().once(), residual = any("residual");
  return either({node_of(ops::pointwise_op(Pointwise::kAdd), {residual, added}),
                 node_of(ops::add_rms_norm_op(), {residual, added, any("next_norm")}),
                 node_of(ops::add_rms_norm_op(), {added, residual, any("next_norm")})});
}

// --- Replacements. ---

passes::NewNode skinny_gemm_of(const Match& match) {
  passes::NewNode made{"skinny_gemm", {}};
  made.attrs.set("dtype", match.node("product").attrs.text("dtype"));
  // If the pattern captured only the norm of a sum, the product reads the sum that add_rms_norm
  // stores.
  made.inputs = {match.has("x") ? match.value("x") : match.node("normed").outputs[0],
                 match.value("weight")};
  if (match.has("normed")) {
    const Attrs& norm = match.node("normed").attrs;
    made.inputs.push_back(match.value("norm"));
    made.attrs.set("norms", true);
    made.attrs.set("eps", norm.real("eps"));
    made.attrs.set("offset", norm.real("offset"));
  }
  if (match.has("delta")) {
    made.inputs.insert(made.inputs.end(), {match.value("delta"), match.value("delta_norm")});
    made.attrs.set("adds", true);
  }
  if (match.has("gate")) made.attrs.set("activation", match.root().attrs.text("activation"));
  if (match.has("residual")) {
    made.inputs.push_back(match.value("residual"));
    made.attrs.set("residual", true);
  }
  return made;
}

// The kernel norms twice with the same constants.
bool are_normed_alike(const Match& match) {
  if (!match.has("delta")) return true;
  const Attrs &sum = match.node("normed").attrs, &delta = match.node("delta_normed").attrs;
  return sum.real("eps") == delta.real("eps") && sum.real("offset") == delta.real("offset");
}

bool are_halves(const Match& match) {
  const Attrs &gate = match.node("gate").attrs, &up = match.node("up").attrs;
  const int64_t width = match.graph().shape(match.value("product"))[1];
  return match.readers("product").size() == 2 && gate.integer("axis") == 1 &&
         up.integer("axis") == 1 && gate.integer("begin") == 0 &&
         gate.integer("end") == width / 2 && up.integer("begin") == width / 2 &&
         up.integer("end") == width;
}

bool is_residual(const Match& match) {
  const Graph& graph = match.graph();
  return match.value("residual") != match.value("product") &&
         graph.type(match.value("residual")) == graph.type(match.root().outputs[0]);
}

// Whether a kernel that fuses neither norms nor residuals is faster.
bool loses_streamed_gemm(const Graph& graph,
                         const plan::Target& target,
                         const passes::NewNode& made) {
  const GemmChoices* choices = gemm_choices(target);
  const bool is_fused = made.inputs.size() > 2;
  return choices != nullptr && is_fused && graph.type(made.inputs[1]).dtype == DType::kBF16 &&
         choices->prefers_streamed_gemm(graph.shape(made.inputs[0]), graph.shape(made.inputs[1]),
                                        made.attrs.has("activation"));
}

// The first output replaces the root. A sum that the kernel makes on the way replaces the old sum
// for its other readers.
ValueId replace_root(Rewriter& rewriter, const Match& match) {
  auto derive = rewriter.builder().derive(match.from(), match.root().scope, match.root().phase);
  std::vector<ValueId> made = passes::append(rewriter, skinny_gemm_of(match));
  if (match.has("delta")) rewriter.replace(match.node("normed").outputs[0], made[1]);
  rewriter.replace(match.root().outputs[0], made[0]);
  return made[0];
}

void replace_residual_sum(Rewriter& rewriter, const Match& match) {
  const Node& sum = match.root();
  ValueId made = replace_root(rewriter, match);
  if (!match.has("next_norm")) return;
  auto derive = rewriter.builder().derive(sum);
  std::vector<ValueId> normed = rewriter.builder().call_all(
      "rms_norm", {made, rewriter.map(match.value("next_norm"))},
      {{"eps", sum.attrs.real("eps")}, {"offset", sum.attrs.real("offset")}, {"fused", true}});
  rewriter.replace_all(std::array{sum.outputs[1], sum.outputs[2]}, normed);
}

}  // namespace

Graph run_fuse_skinny_gemm(const Graph& graph, passes::PassContext& context) {
  auto where = [&](bool (*also)(const Match&)) {
    return [&, also](const Match& match) {
      if (!are_normed_alike(match) || (also != nullptr && !also(match))) return false;
      const passes::NewNode made = skinny_gemm_of(match);
      return !loses_streamed_gemm(graph, context.target, made) &&
             passes::runs_on_target(context, graph, made);
    };
  };
  const std::array rules = {
      RewriteRule{residual_sum(), where(is_residual), replace_residual_sum},
      RewriteRule{gated(product()), where(are_halves), replace_root},
      // More rows than can be normed in the product.
      RewriteRule{gated(product_of(any("x"))), where(are_halves), replace_root},
      RewriteRule{normed_product(), where(nullptr), replace_root},
  };
  return rewrite(graph, context.ops, rules);
}

}  // namespace ridge::backends::cuda
