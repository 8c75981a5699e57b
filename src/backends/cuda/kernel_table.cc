// SPDX-License-Identifier: Apache-2.0
// The table of CUDA bindings, and the ops that only CUDA binds.
#include "backends/cuda/cuda_kernel.h"
#include "backends/kernel_list.h"

#define RIDGE_CUDA_KERNELS(X) \
  RIDGE_KERNELS(X)            \
  X(transpose_multi)          \
  X(row_product)              \
  X(rope_append)              \
  X(append_attention)

namespace ridge::backends::cuda {

const CudaKernel& pointwise_kernel();
#define RIDGE_DECLARE(name) const CudaKernel& name##_kernel();
RIDGE_CUDA_KERNELS(RIDGE_DECLARE)
#undef RIDGE_DECLARE

const CudaKernel* find_kernel(std::string_view op) {
#define RIDGE_LIST(name) &name##_kernel(),
  static const std::array kernels = {RIDGE_CUDA_KERNELS(RIDGE_LIST)};
#undef RIDGE_LIST
  return backends::find_kernel(kernels, pointwise_kernel(), op);
}

}  // namespace ridge::backends::cuda
