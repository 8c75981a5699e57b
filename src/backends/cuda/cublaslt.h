// SPDX-License-Identifier: Apache-2.0
// Loads cuBLASLt's functions at run time. The names follow the library's.
#pragma once

#include <cublasLt.h>

#include <cstddef>

#include "backends/cuda/shared_library.h"

#define RIDGE_CUBLASLT(FUNCTION)                                      \
  FUNCTION(create, cublasLtCreate)                                    \
  FUNCTION(destroy, cublasLtDestroy)                                  \
  FUNCTION(version, cublasLtGetVersion)                               \
  FUNCTION(matmul, cublasLtMatmul)                                    \
  FUNCTION(algorithm_check, cublasLtMatmulAlgoCheck)                  \
  FUNCTION(algorithm_attribute, cublasLtMatmulAlgoConfigGetAttribute) \
  FUNCTION(heuristic, cublasLtMatmulAlgoGetHeuristic)                 \
  FUNCTION(description_create, cublasLtMatmulDescCreate)              \
  FUNCTION(description_destroy, cublasLtMatmulDescDestroy)            \
  FUNCTION(description_set, cublasLtMatmulDescSetAttribute)           \
  FUNCTION(preference_create, cublasLtMatmulPreferenceCreate)         \
  FUNCTION(preference_destroy, cublasLtMatmulPreferenceDestroy)       \
  FUNCTION(preference_set, cublasLtMatmulPreferenceSetAttribute)      \
  FUNCTION(layout_create, cublasLtMatrixLayoutCreate)                 \
  FUNCTION(layout_destroy, cublasLtMatrixLayoutDestroy)               \
  FUNCTION(layout_set, cublasLtMatrixLayoutSetAttribute)

namespace ridge::backends::cuda {

struct CublasLt {
  RIDGE_CUBLASLT(RIDGE_LIBRARY_MEMBER)
  cublasLtHandle_t handle;  // for the current device
};

// Opens the library once per process. Throws a device Error that names the library if it is
// missing.
const CublasLt& cublaslt();

// Throws a device Error that includes `what`, or an out-of-memory Error where an allocation failed.
void check(cublasStatus_t status, const char* what);

}  // namespace ridge::backends::cuda
