// SPDX-License-Identifier: Apache-2.0
// fuse_rope_append: between a merged projection and an attention over a cache one kernel norms and
// turns heads, lays out q, and writes keys and values into their cells. Where the target has it.
#include <optional>

#include "backends/cuda/passes/passes.h"
#include "graph/rewriter.h"
#include "passes/attention_operands.h"
#include "passes/target_call.h"

namespace ridge::backends::cuda {
namespace {

// A run of columns of a merged projection as heads, perhaps normed, perhaps turned.
struct Heads {
  ValueId merged = kNoValue;
  int64_t begin = 0, end = 0;
  const Node* norm = nullptr;
  const Node* rope = nullptr;
  std::vector<Origin> from;  // of what lies between
};

std::optional<Heads> trace(const Graph& graph, ValueId value) {
  Heads heads;
  for (const Node* node = graph.producer(value); node != nullptr;
       node = graph.producer(node->inputs[0])) {
    heads.from = merge_origins(heads.from, node->from);
    if (node->op->name == "reshape") continue;
    if (node->op->name == "rope" && heads.rope == nullptr && heads.norm == nullptr) {
      heads.rope = node;
    } else if (node->op->name == "rms_norm" && heads.norm == nullptr) {
      heads.norm = node;
    } else if (node->op->name == "slice" && node->attrs.integer("axis") == 1) {
      heads.merged = node->inputs[0];
      heads.begin = node->attrs.integer("begin");
      heads.end = node->attrs.integer("end");
      return heads;
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

struct Site {
  const Node* append;
  ValueId q;  // as the attention reads it
  ValueId merged, cos, sin;
  const Node *q_norm, *k_norm;  // or null
  bool interleaved;
  int64_t heads;
  std::vector<Origin> from;
};

// What turns q and k: a rope of each alone, or one of all that is merged.
bool turn_of(const Graph& graph, const Heads& q, const Heads& k, Site& site) {
  const Node* rope = q.rope;
  if (rope == nullptr) {
    rope = graph.producer(q.merged);
    if (rope == nullptr || rope->op->name != "rope_qkv" || q.norm != nullptr || k.rope != nullptr)
      return false;
    site.merged = rope->inputs[0];
    site.from = merge_origins(site.from, rope->from);
  } else {
    if (k.rope == nullptr || rope->attrs.flag("inverse") || k.rope->inputs[1] != rope->inputs[1] ||
        k.rope->attrs != rope->attrs)
      return false;
    site.merged = q.merged;
  }
  site.cos = rope->inputs[1];
  site.sin = rope->inputs[2];
  site.interleaved = rope->attrs.flag("interleaved");
  return true;
}

std::optional<Site> site_at(const Graph& graph, const Node& attention) {
  auto in = passes::attention_operands(graph, attention);
  if (!in || !in->is_cached) return std::nullopt;
  auto q = trace(graph, in->q), k = trace(graph, in->k), v = trace(graph, in->v);
  if (!q || !k || !v || v->rope != nullptr || v->norm != nullptr) return std::nullopt;
  bool in_order = q->merged == k->merged && k->merged == v->merged && q->begin == 0 &&
                  k->begin == q->end && v->begin == k->end && v->end == graph.shape(q->merged)[1];
  bool alike =
      (q->norm == nullptr) == (k->norm == nullptr) &&
      (q->norm == nullptr || (q->norm->attrs.real("eps") == k->norm->attrs.real("eps") &&
                              q->norm->attrs.real("offset") == k->norm->attrs.real("offset")));
  if (!in_order || !alike) return std::nullopt;
  Site site{graph.producer(attention.inputs[1]),
            in->q,
            kNoValue,
            kNoValue,
            kNoValue,
            q->norm,
            k->norm,
            false,
            graph.shape(in->q)[1],
            {}};
  site.from = merge_origins(merge_origins(q->from, k->from), v->from);
  site.from = merge_origins(site.from, site.append->from);
  if (!turn_of(graph, *q, *k, site)) return std::nullopt;
  return site;
}

void fuse(Rewriter& rewriter,
          const Site& site,
          const passes::PassContext& context,
          bool& is_fused) {
  const Graph& graph = rewriter.old();
  const Node& append = *site.append;
  std::vector<ValueId> inputs{append.inputs[0], append.inputs[1], site.merged,
                              site.cos,         site.sin,         append.inputs[4],
                              append.inputs[5], append.inputs[6]};
  Attrs attrs{{"heads", site.heads}, {"interleaved", site.interleaved}};
  if (site.q_norm != nullptr) {
    inputs.insert(inputs.end(), {site.q_norm->inputs[1], site.k_norm->inputs[1]});
    attrs.set("norms", true);
    attrs.set("eps", site.q_norm->attrs.real("eps"));
    attrs.set("offset", site.q_norm->attrs.real("offset"));
  }
  is_fused = passes::runs_on_target(context, graph, "rope_append", inputs, attrs);
  if (!is_fused) return;
  auto derive = rewriter.builder().derive(site.from, append.scope, append.phase);
  std::vector<ValueId> made =
      rewriter.builder().call_all("rope_append", rewriter.map(inputs), attrs);
  rewriter.replace(append.outputs[0], made[0]);
  rewriter.replace(append.outputs[1], made[1]);
  rewriter.replace(site.q, made[2]);
}

Graph run(const Graph& graph, passes::PassContext& context) {
  std::vector<Site> sites;
  for (const Node& node : graph.nodes)
    if (auto site = site_at(graph, node)) sites.push_back(std::move(*site));
  return Rewriter(graph, context.ops).run([&](Rewriter& rewriter, NodeId id) {
    bool is_fused = false;
    for (const Site& site : sites)
      if (site.append == &graph.node(id)) fuse(rewriter, site, context, is_fused);
    return is_fused;
  });
}

}  // namespace

const passes::Pass& fuse_rope_append_pass() {
  static const passes::Pass pass{"fuse_rope_append",
                                 passes::Stage::kStep,
                                 passes::Serves::kInference,
                                 "norm and rotate heads and append them to their cache in one kernel",
                                 "",
                                 run};
  return pass;
}

}  // namespace ridge::backends::cuda
