// SPDX-License-Identifier: Apache-2.0
// Loads cuBLASLt's functions at run time. The names follow the library's.
#pragma once

#include <cublasLt.h>

#include <cstddef>

namespace ridge::backends::cuda {

struct CublasLt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetVersion) version;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoCheck) algorithm_check;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) algorithm_attribute;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulDescCreate) description_create;
  decltype(&cublasLtMatmulDescDestroy) description_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) description_set;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
  cublasLtHandle_t handle;  // for the current device
};

// Opens the library once per process. Throws a device Error that names the library if it is
// missing.
const CublasLt& cublaslt();

// Throws a device Error that includes `what`, or an out-of-memory Error where an allocation failed.
void check(cublasStatus_t status, const char* what);

}  // namespace ridge::backends::cuda
