// SPDX-License-Identifier: Apache-2.0
// native_gemm: bf16 GEMMs may run on the tiles of AMX by a native kernel instead of oneDNN's. Which
// one runs in the end is the binding's choice. The GPU's pass of this name asks for other kernels.
#include "backends/cpu/native_gemm.h"

#include "backends/cpu/passes/passes.h"
#include "passes/native_gemm.h"

namespace ridge::backends::cpu {
namespace {

Graph run(const Graph& graph, passes::PassContext&) {
  return passes::allow_native_gemms(graph, has_native_gemm);
}

}  // namespace

constinit const passes::Pass native_gemm_pass{
    "native_gemm",
    passes::Stage::kStep,
    passes::Serves::kBoth,
    "run bf16 GEMMs on native AMX tile kernels",
    "the last bits differ from the library's; the error is the same",
    run};

}  // namespace ridge::backends::cpu
