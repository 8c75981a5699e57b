// SPDX-License-Identifier: Apache-2.0
// The sum by stores into the other GPUs' inboxes.
#include "backends/cuda/kernels/peer_all_reduce.h"

#include <algorithm>

#include "backends/cuda/kernels/count_up.cuh"
#include "backends/cuda/kernels/early_start.cuh"
#include "backends/cuda/kernels/peer_lines.cuh"

namespace ridge::backends::cuda {
namespace {

constexpr int kThreads = 512;

// Block b has region b. Bound: a store over the link, and the wait for the other ranks'.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    peer_all_reduce_kernel(const __grid_constant__ PeerLaunch given,
                           T* tensor,
                           int64_t lines,
                           int lines_of_block,
                           float factor) {
  const PeerInboxes& peers = given.peers;
  let_next_start();
  wait_for_grids();
  const int64_t begin = int64_t{blockIdx.x} * lines_of_block;
  const auto count = static_cast<int>(min(lines - begin, int64_t{lines_of_block}));
  T* const own = tensor + begin * kLineOf<T>;
  const PeerCall call = peer_call(peers, static_cast<int>(blockIdx.x), 0);
  for (int i = threadIdx.x; i < count; i += kThreads) {
    PeerCall line = call;
    line.at += i * PeerInboxes::kLineBytes;
    send_line<T>(peers, line, load_packed<kLineOf<T>>(own + i * kLineOf<T>));
  }
  for (int i = threadIdx.x; i < count; i += kThreads) {
    PeerCall line = call;
    line.at += i * PeerInboxes::kLineBytes;
    float sums[kLineOf<T>];
    sum_lines<T>(peers, line, load_packed<kLineOf<T>>(own + i * kLineOf<T>), sums);
#pragma unroll
    for (int e = 0; e < kLineOf<T>; ++e) sums[e] *= factor;
    store_floats(own + i * kLineOf<T>, sums);
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  peers.calls[blockIdx.x] = call.number;
  count_up(given.count);
}

template <typename T>
cudaError_t launch(const PeerLaunch& call,
                   std::byte* tensor,
                   int64_t elements,
                   float factor,
                   cudaStream_t stream) {
  const int64_t lines = elements / kLineOf<T>;
  // A line for each thread while there are blocks. None is empty, as lines > (blocks - 1)^2.
  const auto blocks = static_cast<int>(
      std::clamp<int64_t>((lines + kThreads - 1) / kThreads, 1, PeerInboxes::kRegions));
  const auto lines_of_block = static_cast<int>((lines + blocks - 1) / blocks);
  return launch_early(&peer_all_reduce_kernel<T>, dim3(static_cast<unsigned>(blocks)), kThreads, 0,
                      stream, call, reinterpret_cast<T*>(tensor), lines, lines_of_block, factor);
}

}  // namespace

cudaError_t launch_peer_all_reduce(const PeerLaunch& call,
                                   std::byte* tensor,
                                   int64_t elements,
                                   DType dtype,
                                   float factor,
                                   cudaStream_t stream) {
  if (dtype == DType::kF32) return launch<float>(call, tensor, elements, factor, stream);
  if (dtype == DType::kBF16) return launch<uint16_t>(call, tensor, elements, factor, stream);
  return cudaErrorInvalidValue;
}

}  // namespace ridge::backends::cuda
