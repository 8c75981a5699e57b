// SPDX-License-Identifier: Apache-2.0
// cuBLASLt's functions, opened at run time. The names are the library's own.
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
  cublasLtHandle_t handle;  // of the current device
};

// Opens it once a process. Throws a device Error that names the library where it is missing.
const CublasLt& cublaslt();

// Throws a device Error that says what was being done.
void check(cublasStatus_t status, const char* what);

}  // namespace ridge::backends::cuda
