// SPDX-License-Identifier: Apache-2.0
// lora: each target y = x W^T becomes y = x W^T + (alpha / rank) (x A^T) B^T, and all parameters
// but A and B are frozen. It runs before projections are merged, so a merge finds only those that
// have no adapter.
#include "passes/lora.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/printable.h"
#include "graph/rewriter.h"
#include "ops/build.h"
#include "ops/registry.h"
#include "passes/gemm_nodes.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

constexpr std::string_view kWeight = ".weight";

class LoraAdder {
 public:
  LoraAdder(const Graph& graph, PassContext& context)
      : graph_(graph),
        context_(context),
        o_(context.lora),
        left_(o_.targets.begin(), o_.targets.end()) {}

  Graph run() {
    Graph made = Rewriter(graph_, context_.ops).run([&](Rewriter& rewriter, NodeId id) {
      const Node& node = graph_.node(id);
      if (!is_projection(graph_, node) || !is_target(node)) return false;
      adapt(rewriter, node);
      return true;
    });
    if (!left_.empty())
      throw usage_error("[lora-targets] expected some of {}, got {}", fmt::join(projections_, ", "),
                        printable(*left_.begin()));
    for (Value& value : made.values)
      if (value.storage == Storage::kParameter && value.producer == kNoNode)
        value.frozen = !is_lora(value.name);
    return made;
  }

 private:
  const std::string& weight_of(const Node& projection) const {
    return graph_.value(projection.inputs[1]).name;
  }

  // Whether the projection is to get an adapter that it does not have yet.
  bool is_target(const Node& projection) {
    const std::string& weight = weight_of(projection);
    if (!weight.ends_with(kWeight) || is_lora(weight)) return false;
    const std::string module = weight.substr(0, weight.size() - kWeight.size());
    const std::string last = module.substr(module.rfind('.') + 1);
    // A tied head is a lookup too, and an adapter of the product alone would untie it.
    if (last == "embed_tokens") return false;
    projections_.insert(last);
    if (std::find(o_.targets.begin(), o_.targets.end(), last) == o_.targets.end()) return false;
    left_.erase(last);
    return graph_.find(module + std::string(kLoraA)) == kNoValue;
  }

  void adapt(Rewriter& rewriter, const Node& node) {
    Builder& b = rewriter.builder();
    const std::string weight = weight_of(node);
    const std::string module = weight.substr(0, weight.size() - kWeight.size());
    const Shape shape = graph_.shape(node.inputs[1]);
    const ValueId plain = rewriter.copy(node)[0], x = rewriter.map(node.inputs[0]);
    const ValueId down = parameter(b, module + std::string(kLoraA), {o_.rank, shape[1]});
    const ValueId up = parameter(b, module + std::string(kLoraB), {shape[0], o_.rank});
    // New work of the model, in the scope of the projection.
    auto scope = b.scope(node.scope.empty() ? "lora" : node.scope + "/lora");
    b.set_phase(node.phase);
    const ValueId narrow = ops::scale(b, ops::matmul(b, "nd,rd->nr", x, down), o_.scale());
    const ValueId change = ops::matmul(b, "nr,fr->nf", narrow, up);
    rewriter.replace(node.outputs[0], ops::add(b, plain, change));
  }

  ValueId parameter(Builder& b, const std::string& name, Shape shape) {
    const Type type{DType::kF32, std::move(shape)};
    Builder load(context_.load.graph, context_.ops);
    context_.load.stored[name] = load.input(name, type);
    return b.parameter(name, type);
  }

  const Graph& graph_;
  PassContext& context_;
  const LoraOptions& o_;
  std::set<std::string> left_;         // targets that no projection has matched
  std::set<std::string> projections_;  // the last parts of all names
};

}  // namespace

Graph run_lora(const Graph& graph, PassContext& context) {
  // Without a loss nothing is trained.
  const bool has_loss = std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return is_a(node, ops::softmax_cross_entropy_op());
  });
  return has_loss ? LoraAdder(graph, context).run() : graph;
}

}  // namespace ridge::passes
