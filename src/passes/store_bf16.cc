// SPDX-License-Identifier: Apache-2.0
// store_bf16: stores all matrices of a model in bf16, whatever type the file has.
#include "passes/dtypes.h"
#include "passes/passes.h"

namespace ridge::passes {

Graph run_store_bf16(const Graph& graph, PassContext& context) {
  return store_matrices_as(DType::kBF16, graph, context);
}

}  // namespace ridge::passes
