// SPDX-License-Identifier: Apache-2.0
// Builds a graph of one node and binds it.
#include "backends/cpu/calibration/bound_node.h"

#include <string>

#include "backends/cpu/kernels/team.h"
#include "base/arena.h"
#include "base/error.h"
#include "graph/builder.h"
#include "ops/registry.h"

namespace ridge::backends::cpu {

BoundNode::BoundNode(const KernelTable& kernels,
                     std::string_view op,
                     const std::vector<NodeInput>& inputs,
                     const Attrs& attrs,
                     std::span<std::byte> scratch) {
  Builder b(graph_, ops::table());
  std::vector<ValueId> values;
  for (const NodeInput& input : inputs) {
    values.push_back(b.input("input." + std::to_string(values.size()), input.type));
    inputs_.push_back({input.data, input.type, dense_strides(input.type.shape)});
  }
  graph_.outputs = b.call_all(op, values, attrs);
  const CallTypes types(graph_, graph_.nodes[0]);
  const Call call = types.call();
  if (graph_.nodes[0].op->work != nullptr) work_ = graph_.nodes[0].op->work(call);
  const Kernel* kernel = kernels.find(op);
  if (kernel == nullptr || (kernel->unsupported && !kernel->unsupported(call).empty())) return;
  kernel_ = kernel;
  int64_t used = 0;
  auto take = [&](int64_t bytes) {
    std::byte* at = scratch.data() + used;
    used += round_up(bytes, kAlignmentBytes);
    RIDGE_CHECK(used <= static_cast<int64_t>(scratch.size()), "{} needs {} bytes of scratch", op,
                used);
    return at;
  };
  for (const Type& type : types.outputs)
    outputs_.push_back(
        {take(storage_bytes(type.dtype, type.shape.elements())), type, dense_strides(type.shape)});
  if (kernel->workspace_bytes) workspace_ = take(kernel->workspace_bytes(call));
  rotate(0, {inputs_[0].data});
}

void BoundNode::rotate(size_t index, const std::vector<std::byte*>& addresses) {
  const Node& node = graph_.nodes[0];
  launches_.clear();
  for (size_t i = 0; i < addresses.size(); ++i) {
    BindCall call{graph_, node, inputs_, outputs_, workspace_, 1, false, CallTypes(graph_, node),
                  inputs_};
    call.inputs[index].data = addresses[i];
    call.next_inputs[index].data = addresses[(i + 1) % addresses.size()];
    launches_.push_back(kernel_->bind(call));
  }
}

void BoundNode::run(int64_t times) {
  Team::gather([&] {
    for (int64_t i = 0; i < times; ++i) run();
  });
}

}  // namespace ridge::backends::cpu
