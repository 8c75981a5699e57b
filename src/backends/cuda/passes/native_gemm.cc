// SPDX-License-Identifier: Apache-2.0
// native_gemm: GEMMs that the GPU has a native kernel for may be computed by it instead of
// cuBLAS's. Which one runs in the end is the binding's choice. The CPU's pass of this name asks for
// other kernels.
#include "passes/native_gemm.h"
#include "backends/cuda/passes/gemm_choices.h"
#include "backends/cuda/passes/passes.h"

namespace ridge::backends::cuda {
namespace {

Graph run(const Graph& graph, passes::PassContext& context) {
  const GemmChoices* choices = gemm_choices(context.target);
  if (choices == nullptr) return graph;
  return passes::allow_native_gemms(
      graph, [&](const Call& matmul) { return choices->has_native_gemm(matmul); });
}

}  // namespace

constinit const passes::Pass native_gemm_pass{
    "native_gemm",
    passes::Stage::kStep,
    passes::Serves::kBoth,
    "run fp32 GEMMs as sums of bf16 pieces on native Hopper kernels",
    "the last bits differ from the library's; the error is the same",
    run};

}  // namespace ridge::backends::cuda
