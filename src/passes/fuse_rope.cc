// SPDX-License-Identifier: Apache-2.0
// fuse_rope: one kernel turns the q and k heads of a merged projection and copies its v heads;
// attention reads views of the result. A rope on a projection of its own is kept whole.
#include <optional>

#include "graph/rewriter.h"
#include "ops/build.h"
#include "passes/attention_operands.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

// A [N,heads,E] value that is a run of columns of a merged projection.
struct Part {
  ValueId merged;
  int64_t begin, end;
};

std::optional<Part> part_of_merged(const Graph& graph, ValueId heads) {
  const Node* reshape = graph.producer(heads);
  if (reshape == nullptr || reshape->op->name != "reshape") return std::nullopt;
  const Node* slice = graph.producer(reshape->inputs[0]);
  if (slice == nullptr || slice->op->name != "slice" || slice->attrs.integer("axis") != 1)
    return std::nullopt;
  return Part{slice->inputs[0], slice->attrs.integer("begin"), slice->attrs.integer("end")};
}

// An attention whose q and k are turned parts of one
// merged projection and whose v is the rest of it.
struct Site {
  const Node* q_rope;
  const Node* k_rope;
  ValueId v;
  Part q, k, v_part;
};

std::optional<Site> site_at(const Graph& graph, const Node& attention) {
  auto in = attention_operands(graph, attention);
  if (!in) return std::nullopt;
  const Node* q_rope = graph.producer(in->q);
  const Node* k_rope = graph.producer(in->k);
  bool turned = q_rope != nullptr && k_rope != nullptr && q_rope->op->name == "rope" &&
                k_rope->op->name == "rope" && q_rope->inputs[1] == k_rope->inputs[1] &&
                q_rope->attrs == k_rope->attrs;
  if (!turned) return std::nullopt;
  auto q = part_of_merged(graph, q_rope->inputs[0]), k = part_of_merged(graph, k_rope->inputs[0]),
       v = part_of_merged(graph, in->v);
  if (!q || !k || !v || q->merged != k->merged || k->merged != v->merged) return std::nullopt;
  bool in_order = q->begin == 0 && k->begin == q->end && v->begin == k->end &&
                  v->end == graph.shape(q->merged)[1];
  if (!in_order) return std::nullopt;
  return Site{q_rope, k_rope, in->v, *q, *k, *v};
}

void fuse(Rewriter& rewriter, const Site& site) {
  const Graph& graph = rewriter.old();
  Builder& b = rewriter.builder();
  const Node& q = *site.q_rope;
  auto derive = b.derive(merge_origins(q.from, site.k_rope->from), q.scope, q.phase);
  ValueId turned =
      b.call("rope_qkv",
             {rewriter.map(site.q.merged), rewriter.map(q.inputs[1]), rewriter.map(q.inputs[2])},
             {{"interleaved", q.attrs.flag("interleaved")},
              {"heads", graph.shape(q.outputs[0])[1]},
              {"kv_heads", graph.shape(site.v)[1]}});
  auto view = [&](const Part& part, ValueId heads) {
    rewriter.replace(
        heads, ops::reshape(b, ops::slice(b, turned, 1, part.begin, part.end), graph.shape(heads)));
  };
  view(site.q, q.outputs[0]);
  view(site.k, site.k_rope->outputs[0]);
  view(site.v_part, site.v);
}

Graph run(const Graph& graph, PassContext& context) {
  std::vector<Site> sites;
  for (const Node& node : graph.nodes)
    if (auto site = site_at(graph, node)) sites.push_back(*site);
  return Rewriter(graph, context.ops).run([&](Rewriter& rewriter, NodeId id) {
    Node node = graph.node(id);
    if (node.op->name != "rope") return false;
    for (const Site& site : sites) {
      if (&graph.node(id) != site.q_rope && &graph.node(id) != site.k_rope) continue;
      if (!rewriter.is_mapped(node.outputs[0])) fuse(rewriter, site);
      return true;
    }
    node.attrs.set("fused", true);
    rewriter.replace(node.outputs[0], rewriter.copy(node)[0]);
    return true;
  });
}

}  // namespace

const Pass& fuse_rope_pass() {
  static const Pass pass{
      "fuse_rope",
      Stage::kForward,
      Serves::kBoth,
      "split, rotate and lay out q, k and v of a merged projection in one kernel",
      "",
      run};
  return pass;
}

}  // namespace ridge::passes
