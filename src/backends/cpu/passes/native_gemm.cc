// SPDX-License-Identifier: Apache-2.0
// native_gemm: allows a native AMX kernel to compute bf16 GEMMs instead of oneDNN's. The binding
// makes the final choice. The GPU's pass of the same name enables other kernels.
#include "backends/cpu/native_gemm.h"

#include "backends/cpu/passes/passes.h"
#include "passes/gemm_nodes.h"

namespace ridge::backends::cpu {

Graph run_native_gemm(const Graph& graph, passes::PassContext&) {
  return passes::allow_native_gemms(graph, has_native_gemm);
}

}  // namespace ridge::backends::cpu
