// SPDX-License-Identifier: Apache-2.0
// store_f32: stores all matrices of a model in fp32, whatever type the file has.
#include "passes/dtypes.h"
#include "passes/passes.h"

namespace ridge::passes {

Graph run_store_f32(const Graph& graph, PassContext& context) {
  return store_matrices_as(DType::kF32, graph, context);
}

}  // namespace ridge::passes
