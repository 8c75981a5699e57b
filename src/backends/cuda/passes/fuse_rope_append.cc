// SPDX-License-Identifier: Apache-2.0
// fuse_rope_append: between a merged projection and an attention over a KV cache, one kernel norms
// and rotates heads, lays out q, and writes keys and values into their cells. It applies only if
// the target has that kernel.
#include <array>
#include <string>

#include "backends/cuda/passes/passes.h"
#include "graph/rewrite_rule.h"
#include "ops/kv_cache.h"
#include "ops/registry.h"
#include "passes/attention_pattern.h"
#include "passes/nodes.h"

namespace ridge::backends::cuda {
namespace {

Pattern past_reshapes(Pattern behind) { return past({&ops::reshape_op()}, std::move(behind)); }

// Heads of the merged projection that a separate rope rotates, perhaps after a norm.
Pattern rotated_alone(const std::string& name) {
  Pattern columns = past_reshapes(passes::columns_of(any("merged"), name));
  Pattern normed = node_of(ops::rms_norm_op(), {columns, any(name + "_weight")});
  Pattern heads = either({columns, past_reshapes(std::move(normed).as(name + "_norm"))});
  Pattern rope = node_of(ops::rope_op(), {std::move(heads), any("cos"), any("sin")});
  return past_reshapes(std::move(rope).as(name + "_rope"));
}

// q, k and v of a merged projection, where q and k are rotated separately.
Pattern attention_on_rotated() {
  return passes::cached_attention_of(rotated_alone("q").as("q"), rotated_alone("k"),
                                     past_reshapes(passes::columns_of(any("merged"), "v")));
}

// q, k and v of a merged projection that one kernel rotates.
Pattern attention_on_rotated_at_once() {
  Pattern rope = node_of(ops::rope_qkv_op(), {any("merged"), any("cos"), any("sin")});
  auto part = [&](const std::string& name) {
    return past_reshapes(passes::columns_of(Pattern(rope).as("q_rope"), name));
  };
  return passes::cached_attention_of(part("q").as("q"), part("k"), part("v"));
}

bool are_alike(const Match& match) {
  if (!passes::are_all_columns(match)) return false;
  const Attrs& rope = match.node("q_rope").attrs;
  if (match.has("k_rope") && (rope.flag("inverse") || match.node("k_rope").attrs != rope))
    return false;
  if (match.has("q_norm") != match.has("k_norm")) return false;
  if (!match.has("q_norm")) return true;
  const Attrs &q = match.node("q_norm").attrs, &k = match.node("k_norm").attrs;
  return q.real("eps") == k.real("eps") && q.real("offset") == k.real("offset");
}

// rope_append writes keys and values in the type of the projection, or as quants.
bool keeps_type(const Match& match) {
  const DType cache = match.graph().type(match.node("append").inputs[0]).dtype;
  return ops::has_scales(cache) || cache == match.graph().type(match.value("merged")).dtype;
}

constexpr size_t kScalesOfAppend = 7;

// Adds the scales of kv_append's caches, if they have some.
passes::NewNode with_scales(passes::NewNode made, const std::vector<ValueId>& append) {
  made.inputs.insert(made.inputs.end(), append.begin() + kScalesOfAppend, append.end());
  return made;
}

passes::NewNode rope_append_of(const Match& match) {
  const std::vector<ValueId>& append = match.node("append").inputs;
  passes::NewNode made{"rope_append",
                       {append[0], append[1], match.value("merged"), match.value("cos"),
                        match.value("sin"), append[4], append[5], append[6]},
                       {{"heads", match.graph().shape(match.value("q"))[1]},
                        {"interleaved", match.node("q_rope").attrs.flag("interleaved")}}};
  if (!match.has("q_norm")) return with_scales(std::move(made), append);
  const Attrs& norm = match.node("q_norm").attrs;
  made.inputs.insert(made.inputs.end(), {match.value("q_weight"), match.value("k_weight")});
  made.attrs.set("norms", true);
  made.attrs.set("eps", norm.real("eps"));
  made.attrs.set("offset", norm.real("offset"));
  return with_scales(std::move(made), append);
}

void replace_append(Rewriter& rewriter, const Match& match) {
  const Node& append = match.node("append");
  auto derive = rewriter.builder().derive(match.from_behind(), append.scope, append.phase);
  std::vector<ValueId> replaced{append.outputs[0], append.outputs[1], match.value("q")};
  replaced.insert(replaced.end(), append.outputs.begin() + 2, append.outputs.end());
  rewriter.replace_all(replaced, passes::append(rewriter, rope_append_of(match)));
}

}  // namespace

Graph run_fuse_rope_append(const Graph& graph, passes::PassContext& context) {
  auto holds = [&](const Match& match) {
    return are_alike(match) && keeps_type(match) &&
           passes::runs_on_target(context, graph, rope_append_of(match));
  };
  const std::array rules = {
      RewriteRule{attention_on_rotated(), holds, replace_append, "append"},
      RewriteRule{attention_on_rotated_at_once(), holds, replace_append, "append"}};
  return rewrite(graph, context.ops, rules);
}

}  // namespace ridge::backends::cuda
