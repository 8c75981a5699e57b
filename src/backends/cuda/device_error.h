// SPDX-License-Identifier: Apache-2.0
// Converts the status of a CUDA call to an Error that describes the failed operation.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace ridge::backends::cuda {

// Does nothing on success. Otherwise throws a device Error (a lost GPU, an illegal access, a
// failing driver) or an out-of-memory Error; `what` names the operation in the message. CUDA
// reports a kernel's fault at some later call, and the message says so.
void check(cudaError_t status, const char* what);

// Throws the out-of-memory Error for an allocation of `bytes` for `what`, with the device's free
// memory.
[[noreturn]] void out_of_memory(int64_t bytes, const char* what);

}  // namespace ridge::backends::cuda
