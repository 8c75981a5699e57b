// SPDX-License-Identifier: Apache-2.0
// Builds the messages of CUDA errors.
#include "backends/cuda/device_error.h"

#include "base/error.h"
#include "base/units.h"

namespace ridge::backends::cuda {
namespace {

// After one of these the process can no longer use the device: every later call returns the same
// status.
bool is_fatal(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorECCUncorrectable:
    case cudaErrorAssert:
    case cudaErrorDevicesUnavailable:
      return true;
    default:
      return false;
  }
}

}  // namespace

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) [[likely]]
    return;
  cudaGetLastError();  // clears a status that is not fatal
  const char* kind = cudaGetErrorName(status);
  const char* words = cudaGetErrorString(status);
  if (status == cudaErrorMemoryAllocation)
    throw memory_error("[cuda] {}: the GPU is out of memory (see nvidia-smi)", what);
  throw Error(
      fmt::format("[cuda] {}: {} ({}){}", what, words, kind,
                  is_fatal(status)
                      ? "; a kernel before it may have failed, and the GPU is lost to this process"
                      : ""),
      ExitCode::kDevice);
}

void out_of_memory(int64_t bytes, const char* what) {
  cudaGetLastError();
  size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) free = total = 0;
  throw memory_error("[cuda] cannot allocate {1} for '{0}': {2} of the GPU's {3} are free", what,
                     format_bytes(bytes), format_bytes(static_cast<int64_t>(free)),
                     format_bytes(static_cast<int64_t>(total)));
}

}  // namespace ridge::backends::cuda
