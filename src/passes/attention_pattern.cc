// SPDX-License-Identifier: Apache-2.0
// Builds the patterns of attention_pattern.h. In cached attention, k and v are appended to the
// cache first.
#include "passes/attention_pattern.h"

#include "ops/registry.h"

namespace ridge::passes {

Pattern attention_of(Pattern q, Pattern k, Pattern v) {
  return either({node_of(ops::attention_op(), {q, k, v}).more(),
                 node_of(ops::flash_attention_op(), {q, k, v}).more()});
}

Pattern cached_attention_of(Pattern q, Pattern k, Pattern v) {
  Pattern append =
      node_of(ops::kv_append_op(), {any(""), any(""), std::move(k), std::move(v)}).more();
  return node_of(ops::cached_attention_op(), {std::move(q), std::move(append).as("append")}).more();
}

Pattern columns_of(Pattern merged, const std::string& name) {
  return node_of(ops::slice_op(), {std::move(merged)})
      .where([](const Graph&, const Node& slice) { return slice.attrs.integer("axis") == 1; })
      .as(name + "_part");
}

bool are_all_columns(const Match& match) {
  int64_t at = 0;
  for (const char* part : {"q_part", "k_part", "v_part"}) {
    const Attrs& slice = match.node(part).attrs;
    if (slice.integer("begin") != at) return false;
    at = slice.integer("end");
  }
  return at == match.graph().shape(match.node("q_part").inputs[0])[1];
}

}  // namespace ridge::passes
