// SPDX-License-Identifier: Apache-2.0
// Kernels of a person's own in CUDA C++. This header also exists without CUDA: the device is then
// reported as missing.
#pragma once

#include "backends/source_kernel.h"

namespace ridge::backends::cuda {

// Compiles the source by NVRTC for the first GPU. Its function is
//   extern "C" __global__ void NAME(Tensor first, ...)
// with a Tensor for each of the `operands` inputs and outputs: `as<T>()` is the data, `shape` and
// `rank` the extents, `elements()` their product. Throws usage Errors for a grid, a block or shared
// memory that no GPU has, for a source that does not compile (in NVRTC's words, even if there is no
// GPU), and for a function of other parameters; device Errors without NVRTC or a GPU.
SourceKernel compile_source(const KernelSource& source, int operands);

}  // namespace ridge::backends::cuda
