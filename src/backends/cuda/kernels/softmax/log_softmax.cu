// SPDX-License-Identifier: Apache-2.0
// log_softmax of rows and its gradient: the logarithmic form of softmax's kernels.
#include "backends/cuda/kernels/softmax/log_softmax.h"

#include "backends/cuda/kernels/softmax/softmax_rows.cuh"

namespace ridge::backends::cuda {

template <typename T>
cudaError_t launch_log_softmax(const Softmax<T>& call, cudaStream_t stream) {
  return launch_softmax_rows<SoftmaxForm::kLog>(call, stream);
}

template <typename T>
cudaError_t launch_log_softmax_backward(const SoftmaxBackward<T>& call, cudaStream_t stream) {
  return launch_softmax_backward_rows<SoftmaxForm::kLog>(call, stream);
}

template cudaError_t launch_log_softmax(const Softmax<float>&, cudaStream_t);
template cudaError_t launch_log_softmax(const Softmax<uint16_t>&, cudaStream_t);
template cudaError_t launch_log_softmax_backward(const SoftmaxBackward<float>&, cudaStream_t);
template cudaError_t launch_log_softmax_backward(const SoftmaxBackward<uint16_t>&, cudaStream_t);

}  // namespace ridge::backends::cuda
