// SPDX-License-Identifier: Apache-2.0
// transpose_operands: if both operands of a GEMM are strided along the depth (K), as in a weight's
// gradient, one of them is transposed first, where that saves the GPU more time than it costs.
#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "backends/cuda/passes/gemm_choices.h"
#include "backends/cuda/passes/passes.h"
#include "graph/einsum.h"
#include "graph/rewriter.h"
#include "ops/registry.h"

namespace ridge::backends::cuda {
namespace {

class OperandTransposer {
 public:
  OperandTransposer(const Graph& graph, const GemmChoices* choices) : graph_(graph) {
    for (size_t i = 0; choices != nullptr && i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      if (!is_a(node, ops::matmul_op())) continue;
      if (int operand = choices->transposed_operand(CallTypes(graph, node).call()); operand >= 0)
        products_.push_back({static_cast<NodeId>(i), operand});
    }
  }

  bool is_empty() const { return products_.empty(); }

  bool operator()(Rewriter& rewriter, NodeId id) {
    if (next_ == products_.size() || products_[next_].node != id) return false;
    Builder& b = rewriter.builder();
    Node node = graph_.node(id);
    auto derive = b.derive(node);
    transpose(rewriter, id);
    const int operand = products_[next_++].operand;
    std::vector<ValueId> inputs = rewriter.map(node.inputs);
    ValueId& transposed = inputs[static_cast<size_t>(operand)];
    transposed = transposed_.at(node.inputs[static_cast<size_t>(operand)]);
    Einsum einsum = parse_einsum(node.attrs.text("einsum"));
    std::string& letters = operand == 0 ? einsum.a : einsum.b;
    std::swap(letters[0], letters[1]);
    node.attrs.set("einsum", einsum.str());
    rewriter.replace(node.outputs[0], b.call("matmul", inputs, node.attrs));
    return true;
  }

 private:
  struct Product {
    NodeId node;
    int operand;
  };

  // Transposes the operand of the next product and, in the same launch, that of the product after
  // it if it is already computed. Not more than two, since a transposed matrix is kept until its
  // product.
  void transpose(Rewriter& rewriter, NodeId id) {
    constexpr size_t kAtOnce = 2;
    std::vector<ValueId> matrices;
    for (size_t i = next_; i < std::min(next_ + kAtOnce, products_.size()); ++i) {
      const Product& product = products_[i];
      const ValueId matrix = graph_.node(product.node).inputs[static_cast<size_t>(product.operand)];
      const bool is_new = !transposed_.contains(matrix) &&
                          std::find(matrices.begin(), matrices.end(), matrix) == matrices.end();
      if (is_new && graph_.value(matrix).producer < id) matrices.push_back(matrix);
    }
    if (transposed_.contains(graph_.node(id).inputs[static_cast<size_t>(products_[next_].operand)]))
      return;
    std::vector<ValueId> made =
        rewriter.builder().call_all("transpose_multi", rewriter.map(matrices));
    for (size_t i = 0; i < made.size(); ++i) transposed_[matrices[i]] = made[i];
  }

  const Graph& graph_;
  std::vector<Product> products_;  // in the schedule's order
  size_t next_ = 0;
  std::map<ValueId, ValueId> transposed_;
};

}  // namespace

Graph run_transpose_operands(const Graph& graph, passes::PassContext& context) {
  OperandTransposer transposer(graph, gemm_choices(context.target));
  if (transposer.is_empty()) return graph;
  return Rewriter(graph, context.ops).run(std::ref(transposer));
}

}  // namespace ridge::backends::cuda
