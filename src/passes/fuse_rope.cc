// SPDX-License-Identifier: Apache-2.0
// fuse_rope: one kernel rotates the q and k heads of a merged projection and copies its v heads;
// attention reads views of the result. A rope on a separate projection is kept whole.
#include <array>
#include <string>

#include "graph/rewrite_rule.h"
#include "ops/build.h"
#include "ops/registry.h"
#include "passes/attention_pattern.h"
#include "passes/nodes.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

Pattern heads(const std::string& name) {
  return node_of(ops::reshape_op(), {columns_of(any("merged"), name)});
}

Pattern rotated(const std::string& name) {
  return node_of(ops::rope_op(), {heads(name), any("cos"), any("sin")}).as(name);
}

Pattern attention_on_merged_projection() {
  Pattern q = rotated("q"), k = rotated("k"), v = heads("v").as("v");
  return either({attention_of(q, k, v), cached_attention_of(q, k, v)});
}

bool are_rotated_alike(const Match& match) {
  return match.node("q").attrs == match.node("k").attrs && are_all_columns(match);
}

void replace_rotations(Rewriter& rewriter, const Match& match) {
  const Graph& graph = rewriter.old();
  const Node &q = match.node("q"), &k = match.node("k");
  Builder& b = rewriter.builder();
  auto derive = b.derive(merge_origins(q.from, k.from), q.scope, q.phase);
  ValueId rotated = b.call("rope_qkv", rewriter.map(match.values({"merged", "cos", "sin"})),
                           {{"interleaved", q.attrs.flag("interleaved")},
                            {"heads", graph.shape(match.value("q"))[1]},
                            {"kv_heads", graph.shape(match.value("v"))[1]}});
  for (const std::string name : {"q", "k", "v"}) {
    const Attrs& part = match.node(name + "_part").attrs;
    ValueId columns = ops::slice(b, rotated, 1, part.integer("begin"), part.integer("end"));
    rewriter.replace(match.value(name), ops::reshape(b, columns, graph.shape(match.value(name))));
  }
}

}  // namespace

Graph run_fuse_rope(const Graph& graph, PassContext& context) {
  const std::array rules = {
      RewriteRule{attention_on_merged_projection(), are_rotated_alike, replace_rotations, "q"},
      keep_whole_rule(ops::rope_op())};
  return rewrite(graph, context.ops, rules);
}

}  // namespace ridge::passes
