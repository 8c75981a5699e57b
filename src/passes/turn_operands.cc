// SPDX-License-Identifier: Apache-2.0
// turn_operands: a product that reads both operands across the depth gets a copy of one along it,
// where the target gains more by that than the copy takes.
#include <map>

#include "graph/einsum.h"
#include "graph/rewriter.h"
#include "ops/build.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

// The axes in the order that puts those summed over last.
std::vector<int64_t> depth_last(const std::string& letters, const std::string& depth) {
  std::vector<int64_t> axes, last;
  for (size_t i = 0; i < letters.size(); ++i)
    (depth.find(letters[i]) == std::string::npos ? axes : last).push_back(static_cast<int64_t>(i));
  axes.insert(axes.end(), last.begin(), last.end());
  return axes;
}

Graph run(const Graph& graph, PassContext& context) {
  std::map<std::pair<ValueId, std::vector<int64_t>>, ValueId> copies;  // by operand and its axes
  return Rewriter(graph, context.ops).run([&](Rewriter& rewriter, NodeId id) {
    Node node = graph.node(id);
    if (node.op->name != "matmul") return false;
    const int operand = context.target.turned_operand(graph, node);
    if (operand < 0) return false;
    Einsum einsum = parse_einsum(node.attrs.text("einsum"));
    std::string& letters = operand == 0 ? einsum.a : einsum.b;
    const std::vector<int64_t> axes = depth_last(letters, einsum.k);
    std::string turned;
    for (int64_t axis : axes) turned += letters[static_cast<size_t>(axis)];
    letters = turned;
    node.attrs.set("einsum", einsum.str());

    Builder& b = rewriter.builder();
    auto derive = b.derive(node);
    const ValueId across = node.inputs[static_cast<size_t>(operand)];
    std::vector<ValueId> inputs = rewriter.map(node.inputs);
    auto [copy, is_first] = copies.try_emplace({across, axes}, kNoValue);
    if (is_first) copy->second = b.call("copy", {ops::transpose(b, rewriter.map(across), axes)});
    inputs[static_cast<size_t>(operand)] = copy->second;
    rewriter.replace(node.outputs[0], b.call("matmul", inputs, node.attrs));
    return true;
  });
}

}  // namespace

const Pass& turn_operands_pass() {
  static const Pass pass{"turn_operands", Stage::kStep,
                         "a copy along the depth of an operand that lies across it, where the "
                         "product gains more",
                         "bytes and a launch for time", run};
  return pass;
}

}  // namespace ridge::passes
