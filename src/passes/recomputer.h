// SPDX-License-Identifier: Apache-2.0
// Rewrites a step so that the backward pass computes values again that the forward pass made. Which
// ones, the passes recompute, recompute_attention and recompute_nested say. Not a pass.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "graph/rewriter.h"

namespace ridge::passes {

// The name of the part of the model that a node belongs to, such as "layer.3"; empty: none.
using PartOf = std::function<std::string(const Node&)>;

// "layer.3" for a node of the scope "layer.3/attention"; empty outside of layers.
std::string layer_of(const Node& node);
// 3 for "layer.3".
int64_t layer_number(const std::string& layer);

// A value that the forward pass of a part makes is computed again for the backward pass of the same
// part, once for all its readers. Values that other parts read are kept, unless both parts are in
// one segment: then they are computed again, too, from the values that other segments made.
class Recomputer {
 public:
  Recomputer(
      const Graph& graph,
      PartOf part,
      PartOf segment = [](const Node&) { return std::string(); });

  Graph run(const OpTable& ops);

 private:
  using Made = std::map<ValueId, ValueId>;

  bool visit(Rewriter& rewriter, NodeId id);
  // The value that `reader` reads in place of `value`.
  ValueId again(Rewriter& rewriter, const Node& reader, ValueId value);
  // The same for a node that makes its segment's values again.
  ValueId chained(Rewriter& rewriter, const Node& reader, ValueId value);
  ValueId make(Rewriter& rewriter,
               const Node& producer,
               ValueId value,
               std::vector<ValueId> inputs,
               Made& made);

  const Graph& graph_;
  PartOf part_, segment_;
  Made again_, chained_;
};

}  // namespace ridge::passes
