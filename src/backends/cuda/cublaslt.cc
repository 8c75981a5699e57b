// SPDX-License-Identifier: Apache-2.0
// Opens cuBLASLt and looks up its functions.
#include "backends/cuda/cublaslt.h"

#include "base/error.h"

namespace ridge::backends::cuda {
namespace {

CublasLt open() {
  static_assert(CUBLAS_VER_MAJOR == 13, "the file name belongs to the header's version");
  SharedLibrary library("libcublasLt.so.13");
  if (!library.is_open())
    throw Error(
        fmt::format("[cuda] GEMMs need cuBLASLt, which cannot be opened: {}", library.failure()),
        ExitCode::kDevice);
  CublasLt functions{};
  RIDGE_CUBLASLT(RIDGE_LIBRARY_FIND)
  if (!library.missing().empty())
    throw Error(fmt::format("[cuda] this cuBLASLt does not have {}", library.missing()),
                ExitCode::kDevice);
  check(functions.create(&functions.handle), "starting cuBLASLt");
  return functions;
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
