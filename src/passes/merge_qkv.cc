// SPDX-License-Identifier: Apache-2.0
// merge_qkv: merges the q, k and v projections of an attention into one GEMM. For an attention over
// a KV cache it does so only where weights are copied to the device anyway; elsewhere they stay
// where the file stores them.
#include "passes/attention_pattern.h"
#include "passes/merge_products.h"
#include "passes/passes.h"

namespace ridge::passes {

Graph run_merge_qkv(const Graph& graph, PassContext& context) {
  Pattern q = projection_behind("q"), k = projection_behind("k"), v = projection_behind("v");
  std::vector<Pattern> kinds{attention_of(q, k, v)};
  if (context.target.owns_weights()) kinds.push_back(cached_attention_of(q, k, v));
  return merge_products(graph, context, {either(std::move(kinds)), {"q", "k", "v"}, "qkv_proj"});
}

}  // namespace ridge::passes
