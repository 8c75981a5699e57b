// SPDX-License-Identifier: Apache-2.0
// fuse_append_attention: a rope_append and the attention over the cache that it appends to become
// one kernel, if nothing else reads the values between them and the target has that kernel.
#include <array>

#include "backends/cuda/passes/passes.h"
#include "graph/rewrite_rule.h"
#include "ops/registry.h"
#include "passes/nodes.h"

namespace ridge::backends::cuda {
namespace {

Pattern attention_behind_append() {
  Pattern q =
      node_of(ops::rope_append_op(), {any("keys"), any("values"), any("merged"), any("cos"),
                                      any("sin"), any("positions"), any("slots"), any("table")})
          .more()
          .output(2);
  return node_of(ops::cached_attention_op(),
                 {std::move(q).as("q").once(), output_of("q", 0).once(), output_of("q", 1).once(),
                  any("positions"), any("slots"), any("table")})
      .where([](const Graph&, const Node& attention) { return attention.attrs.flag("fused"); });
}

passes::NewNode append_attention_of(const Match& match) {
  const Node &append = match.node("q"), &attention = match.root();
  passes::NewNode made{"append_attention", append.inputs, append.attrs};
  for (const char* name : {"window", "context"})
    made.attrs.set(name, attention.attrs.integer(name));
  made.attrs.set("scale", attention.attrs.real("scale"));
  return made;
}

void replace_both(Rewriter& rewriter, const Match& match) {
  const Node &append = match.node("q"), &attention = match.root();
  auto derive = rewriter.builder().derive(match.from(), attention.scope, attention.phase);
  rewriter.replace_all(std::array{append.outputs[0], append.outputs[1], attention.outputs[0]},
                       passes::append(rewriter, append_attention_of(match)));
}

}  // namespace

Graph run_fuse_append_attention(const Graph& graph, passes::PassContext& context) {
  auto runs = [&](const Match& match) {
    return passes::runs_on_target(context, graph, append_attention_of(match));
  };
  return rewrite(graph, context.ops,
                 std::array{RewriteRule{attention_behind_append(), runs, replace_both, "q"}});
}

}  // namespace ridge::backends::cuda
