// SPDX-License-Identifier: Apache-2.0
// log_softmax of rows and its gradient: the logarithmic form of softmax's kernels.
#include "backends/cuda/kernels/softmax/log_softmax.h"

#include "backends/cuda/kernels/softmax/softmax_rows.cuh"

namespace ridge::backends::cuda {

template <typename T>
cudaError_t launch_log_softmax(const LogSoftmax<T>& call, cudaStream_t stream) {
  return launch_softmax_rows<SoftmaxForm::kLog>(
      Softmax<T>{call.rows, call.columns, 1.0f, {}, call.x, call.y}, stream);
}

template <typename T>
cudaError_t launch_log_softmax_backward(const LogSoftmaxBackward<T>& call, cudaStream_t stream) {
  return launch_softmax_backward_rows<SoftmaxForm::kLog>(
      SoftmaxBackward<T>{call.rows, call.columns, 1.0f, {}, call.y, call.dy, call.dx}, stream);
}

template cudaError_t launch_log_softmax(const LogSoftmax<float>&, cudaStream_t);
template cudaError_t launch_log_softmax(const LogSoftmax<uint16_t>&, cudaStream_t);
template cudaError_t launch_log_softmax_backward(const LogSoftmaxBackward<float>&, cudaStream_t);
template cudaError_t launch_log_softmax_backward(const LogSoftmaxBackward<uint16_t>&, cudaStream_t);

}  // namespace ridge::backends::cuda
