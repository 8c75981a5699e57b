// SPDX-License-Identifier: Apache-2.0
// merge_qkv: the q, k and v projections of an attention become one
// GEMM. Of an attention over a cache only where weights are copied
// to the device anyway: elsewhere they stay where their file has them.
#include "passes/attention_pattern.h"
#include "passes/merge_products.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

Graph run(const Graph& graph, PassContext& context) {
  Pattern q = projection_behind("q"), k = projection_behind("k"), v = projection_behind("v");
  std::vector<Pattern> kinds{attention_of(q, k, v)};
  if (context.target.owns_weights()) kinds.push_back(cached_attention_of(q, k, v));
  return merge_products(graph, context, {either(std::move(kinds)), {"q", "k", "v"}, "qkv_proj"});
}

}  // namespace

constinit const Pass merge_qkv_pass{"merge_qkv",
                                    Stage::kForward,
                                    Serves::kBoth,
                                    "merge the q, k and v projections into one GEMM",
                                    "",
                                    run};

}  // namespace ridge::passes
