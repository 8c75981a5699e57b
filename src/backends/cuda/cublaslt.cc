// SPDX-License-Identifier: Apache-2.0
// Opens cuBLASLt and looks up its functions.
#include "backends/cuda/cublaslt.h"

#include "backends/cuda/shared_library.h"
#include "base/error.h"

namespace ridge::backends::cuda {
namespace {

CublasLt open() {
  static constexpr const char* kNames[] = {"libcublasLt.so.13"};
  static_assert(CUBLAS_VER_MAJOR == 13, "the file name belongs to the header's version");
  SharedLibrary library(kNames);
  if (!library.is_open())
    throw Error(
        fmt::format("[cuda] GEMMs need cuBLASLt, which cannot be opened: {}", library.failure()),
        ExitCode::kDevice);
  auto find = [&](auto& function, const char* symbol) {
    if (!library.find(function, symbol))
      throw Error(fmt::format("[cuda] this cuBLASLt does not have {}", symbol), ExitCode::kDevice);
  };
  CublasLt lt{};
  find(lt.create, "cublasLtCreate");
  find(lt.destroy, "cublasLtDestroy");
  find(lt.version, "cublasLtGetVersion");
  find(lt.matmul, "cublasLtMatmul");
  find(lt.algorithm_check, "cublasLtMatmulAlgoCheck");
  find(lt.algorithm_attribute, "cublasLtMatmulAlgoConfigGetAttribute");
  find(lt.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  find(lt.description_create, "cublasLtMatmulDescCreate");
  find(lt.description_destroy, "cublasLtMatmulDescDestroy");
  find(lt.description_set, "cublasLtMatmulDescSetAttribute");
  find(lt.preference_create, "cublasLtMatmulPreferenceCreate");
  find(lt.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  find(lt.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  find(lt.layout_create, "cublasLtMatrixLayoutCreate");
  find(lt.layout_destroy, "cublasLtMatrixLayoutDestroy");
  find(lt.layout_set, "cublasLtMatrixLayoutSetAttribute");
  check(lt.create(&lt.handle), "starting cuBLASLt");
  return lt;
}

const char* words(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "no memory";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "invalid value";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "not supported by this GPU";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "execution failed";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "internal error";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "not supported";
    default:
      return "another status";
  }
}

}  // namespace

const CublasLt& cublaslt() {
  static const CublasLt lt = open();
  return lt;
}

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  throw Error(fmt::format("[cuda] {}: cuBLASLt says {} ({})", what, words(status),
                          static_cast<int>(status)),
              status == CUBLAS_STATUS_ALLOC_FAILED ? ExitCode::kOutOfMemory : ExitCode::kDevice);
}

}  // namespace ridge::backends::cuda
