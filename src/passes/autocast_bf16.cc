// SPDX-License-Identifier: Apache-2.0
// autocast_bf16: runs activations and GEMMs in bf16 with fp32 master weights.
#include "passes/dtypes.h"
#include "passes/passes.h"

namespace ridge::passes {

Graph run_autocast_bf16(const Graph& graph, PassContext& context) {
  return autocast(DType::kBF16, graph, context);
}

}  // namespace ridge::passes
