// SPDX-License-Identifier: Apache-2.0
// fuse_row_products: products of a few rows take in the norm before them, with the sum that it
// norms, and the gated activation or the residual sum behind them, so that a step of a few tokens
// is few kernels. Where the target has it. What is left without readers falls away.
#include <map>
#include <optional>

#include "backends/cuda/passes/passes.h"
#include "graph/rewriter.h"
#include "passes/projection.h"
#include "passes/target_call.h"

namespace ridge::backends::cuda {
namespace {

// The kernel reads activations and weights of one type.
bool is_row_product(const Graph& graph, const Node* node) {
  return node != nullptr && passes::is_projection(graph, *node) &&
         graph.type(node->inputs[0]).dtype == graph.type(node->inputs[1]).dtype;
}

class Fuser {
 public:
  Fuser(const Graph& graph, passes::PassContext& context)
      : graph_(graph), context_(context), users_(graph.users()) {}

  bool visit(Rewriter& rewriter, const Node& node) {
    if (node.op->name == "matmul")
      return is_row_product(graph_, &node) && fuse_alone(rewriter, node);
    if (node.op->name == "glu") return fuse_glu(rewriter, node);
    if (node.op->name == "add" || node.op->name == "add_rms_norm")
      return fuse_residual(rewriter, node);
    return false;
  }

 private:
  // A row_product to be: values of the old graph, but for what was made of them.
  struct Plan {
    std::vector<ValueId> inputs;  // x, weight, norms, delta
    Attrs attrs;
    ValueId sum = kNoValue;  // what the second output stands for
    std::vector<Origin> from;
    void take(const Node& node) { from = merge_origins(from, node.from); }
  };

  bool is_read_once(ValueId value) const {
    return users_[static_cast<size_t>(value)].size() == 1 &&
           std::find(graph_.outputs.begin(), graph_.outputs.end(), value) == graph_.outputs.end();
  }

  // The product with the norm before it, if nothing else
  // reads what is normed and the target takes both together.
  Plan plan_of(const Node& product) const {
    Plan plan{{product.inputs[0], product.inputs[1]}, {}, kNoValue, product.from};
    plan.attrs.set("dtype", product.attrs.text("dtype"));
    const Node* norm = graph_.producer(product.inputs[0]);
    if (norm == nullptr || !is_read_once(product.inputs[0])) return plan;
    bool is_sum = norm->op->name == "add_rms_norm";
    if (!is_sum && norm->op->name != "rms_norm") return plan;
    Plan normed = plan;
    normed.take(*norm);
    normed.attrs.set("norms", true);
    normed.attrs.set("eps", norm->attrs.real("eps"));
    normed.attrs.set("offset", norm->attrs.real("offset"));
    if (is_sum)
      take_sum(*norm, normed);
    else
      normed.inputs = {norm->inputs[0], product.inputs[1], norm->inputs[1]};
    return runs(normed) ? normed : plan;
  }

  // sum = x + residual: one of them may be a norm that nothing else reads.
  void take_sum(const Node& sum, Plan& plan) const {
    plan.inputs = {sum.outputs[0], plan.inputs[1], sum.inputs[2]};
    for (size_t side : {size_t{1}, size_t{0}}) {
      const Node* delta = graph_.producer(sum.inputs[side]);
      bool fits = delta != nullptr && delta->op->name == "rms_norm" &&
                  is_read_once(sum.inputs[side]) && delta->outputs[0] == sum.inputs[side] &&
                  delta->attrs.real("eps") == sum.attrs.real("eps") &&
                  delta->attrs.real("offset") == sum.attrs.real("offset");
      if (!fits) continue;
      plan.inputs[0] = sum.inputs[1 - side];
      plan.inputs.insert(plan.inputs.end(), {delta->inputs[0], delta->inputs[1]});
      plan.attrs.set("adds", true);
      plan.sum = sum.outputs[0];
      plan.take(*delta);
      return;
    }
  }

  bool runs(const Plan& plan) const {
    return passes::runs_on_target(context_, graph_, "row_product", plan.inputs, plan.attrs);
  }

  // The node of the plan; the sum's readers read it from there.
  ValueId make(Rewriter& rewriter, const Plan& plan, const Node& place) const {
    auto derive = rewriter.builder().derive(plan.from, place.scope, place.phase);
    std::vector<ValueId> made =
        rewriter.builder().call_all("row_product", rewriter.map(plan.inputs), plan.attrs);
    if (plan.sum != kNoValue) rewriter.replace(plan.sum, made[1]);
    return made[0];
  }

  // Products that something behind takes in are left for it.
  bool fuse_alone(Rewriter& rewriter, const Node& product) const {
    Plan plan = plan_of(product);
    if (plan.inputs.size() == 2 || goes_on(product) || !runs(plan)) return false;
    rewriter.replace(product.outputs[0], make(rewriter, plan, product));
    return true;
  }

  bool goes_on(const Node& product) const {
    for (NodeId user : users_[static_cast<size_t>(product.outputs[0])]) {
      const Node& node = graph_.node(user);
      if (node.op->name == "slice") {
        const std::vector<NodeId>& next = users_[static_cast<size_t>(node.outputs[0])];
        if (next.size() == 1 && graph_.node(next[0]).op->name == "glu" &&
            glu_plan(graph_.node(next[0])))
          return true;
      } else if (residual_plan(node)) {
        return true;
      }
    }
    return false;
  }

  // Gate and up are the halves of one product, and nothing else reads it.
  std::optional<Plan> glu_plan(const Node& glu) const {
    const Node *gate = graph_.producer(glu.inputs[0]), *up = graph_.producer(glu.inputs[1]);
    if (gate == nullptr || up == nullptr || gate->op->name != "slice" || up->op->name != "slice" ||
        gate->inputs[0] != up->inputs[0])
      return std::nullopt;
    const Node* product = graph_.producer(gate->inputs[0]);
    if (!is_row_product(graph_, product) ||
        users_[static_cast<size_t>(product->outputs[0])].size() != 2)
      return std::nullopt;
    int64_t width = graph_.shape(product->outputs[0])[1];
    bool halves = gate->attrs.integer("axis") == 1 && up->attrs.integer("axis") == 1 &&
                  gate->attrs.integer("begin") == 0 && gate->attrs.integer("end") == width / 2 &&
                  up->attrs.integer("begin") == width / 2 && up->attrs.integer("end") == width;
    if (!halves) return std::nullopt;
    Plan plan = plan_of(*product);
    plan.attrs.set("activation", glu.attrs.text("activation"));
    for (const Node* node : {&glu, gate, up}) plan.take(*node);
    return runs(plan) ? std::optional(std::move(plan)) : std::nullopt;
  }

  bool fuse_glu(Rewriter& rewriter, const Node& glu) const {
    auto plan = glu_plan(glu);
    if (!plan) return false;
    rewriter.replace(glu.outputs[0], make(rewriter, *plan, glu));
    return true;
  }

  // A sum of a product, which nothing else reads, and something that was there before it.
  std::optional<Plan> residual_plan(const Node& sum) const {
    if (sum.op->name != "add" && sum.op->name != "add_rms_norm") return std::nullopt;
    for (size_t side : {size_t{1}, size_t{0}}) {
      const Node* product = graph_.producer(sum.inputs[side]);
      if (!is_row_product(graph_, product) || !is_read_once(sum.inputs[side])) continue;
      if (sum.inputs[1 - side] == sum.inputs[side]) continue;
      Plan plan = plan_of(*product);
      plan.inputs.push_back(sum.inputs[1 - side]);
      plan.attrs.set("residual", true);
      plan.take(sum);
      if (graph_.type(sum.inputs[1 - side]) == graph_.type(sum.outputs[0]) && runs(plan))
        return plan;
    }
    return std::nullopt;
  }

  // What is normed after it is normed by the next product, or alone.
  bool fuse_residual(Rewriter& rewriter, const Node& sum) const {
    auto plan = residual_plan(sum);
    if (!plan) return false;
    ValueId made = make(rewriter, *plan, sum);
    rewriter.replace(sum.outputs[0], made);
    if (sum.op->name == "add") return true;
    auto derive = rewriter.builder().derive(sum);
    std::vector<ValueId> normed = rewriter.builder().call_all(
        "rms_norm", {made, rewriter.map(sum.inputs[2])},
        {{"eps", sum.attrs.real("eps")}, {"offset", sum.attrs.real("offset")}, {"fused", true}});
    rewriter.replace(sum.outputs[1], normed[0]);
    rewriter.replace(sum.outputs[2], normed[1]);
    return true;
  }

  const Graph& graph_;
  passes::PassContext& context_;
  std::vector<std::vector<NodeId>> users_;
};

Graph run(const Graph& graph, passes::PassContext& context) {
  Fuser fuser(graph, context);
  return Rewriter(graph, context.ops).run([&](Rewriter& rewriter, NodeId id) {
    return fuser.visit(rewriter, graph.node(id));
  });
}

}  // namespace

const passes::Pass& fuse_row_products_pass() {
  static const passes::Pass pass{"fuse_row_products",
                                 passes::Stage::kStep,
                                 passes::Serves::kInference,
                                 "norms, gates and residual sums inside the products of a few rows",
                                 "",
                                 run};
  return pass;
}

}  // namespace ridge::backends::cuda
