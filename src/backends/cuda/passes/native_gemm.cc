// SPDX-License-Identifier: Apache-2.0
// native_gemm: allows a native GPU kernel to compute GEMMs instead of cuBLAS's. The binding makes
// the final choice. The CPU's pass of the same name enables other kernels.
#include "backends/cuda/passes/gemm_choices.h"
#include "backends/cuda/passes/passes.h"
#include "passes/gemm_nodes.h"

namespace ridge::backends::cuda {

Graph run_native_gemm(const Graph& graph, passes::PassContext& context) {
  const GemmChoices* choices = gemm_choices(context.target);
  if (choices == nullptr) return graph;
  return passes::allow_native_gemms(
      graph, [&](const Call& matmul) { return choices->has_native_gemm(matmul); });
}

}  // namespace ridge::backends::cuda
