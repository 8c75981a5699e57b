// SPDX-License-Identifier: Apache-2.0
// From the status of a CUDA call to an Error that says what was being done.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace ridge::backends::cuda {

// Nothing on success. Else a device Error (a GPU lost, an illegal access, a driver that fails) or
// an out-of-memory one, which says that `what` was being done. CUDA reports a kernel's fault at
// some later call: the message says so.
void check(cudaError_t status, const char* what);

// The out-of-memory Error for `bytes` asked for as `what`, with what the device has free.
[[noreturn]] void out_of_memory(int64_t bytes, const char* what);

}  // namespace ridge::backends::cuda
