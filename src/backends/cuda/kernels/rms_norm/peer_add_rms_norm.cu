// SPDX-License-Identifier: Apache-2.0
// RMS norm of a sum over GPUs and a residual: a block holds a row in registers from its stores into
// the other GPUs' inboxes to its scaling.
#include "backends/cuda/kernels/count_up.cuh"
#include "backends/cuda/kernels/early_start.cuh"
#include "backends/cuda/kernels/peer_lines.cuh"
#include "backends/cuda/kernels/rms_norm/norm_vectors.cuh"
#include "backends/cuda/kernels/row_group.cuh"

namespace ridge::backends::cuda {
namespace {

constexpr int kMostLines = 4;  // a thread's

// A row has kCount regions, of which the threads hold a line each. Bound: a store over the link,
// and the wait for the other ranks'; what else is read is there before that ends.
template <typename T, int kGroup, int kCount>
__global__ void __launch_bounds__(kGroup, 1)
    peer_add_rms_norm_kernel(const __grid_constant__ PeerLaunch given,
                             const __grid_constant__ AddRmsNorm<T> p) {
  static_assert(kCount == 1 || kGroup == PeerInboxes::kLinesOfRegion);
  using Group = RowGroup<kGroup>;
  static_assert(Group::kWhole);
  constexpr int kLine = kLineOf<T>;
  __shared__ ReduceScratch scratch;
  const PeerInboxes& peers = given.peers;
  const RmsNorm<T>& norm = p.norm;
  const int lines = static_cast<int>(norm.width) / kLine, lane = Group::lane();
  const int64_t row = blockIdx.x;
  const int first = static_cast<int>(blockIdx.x) * kCount;
  let_next_start();
#pragma unroll
  for (int k = 0; k < kCount; ++k)
    if (lane + k * kGroup < lines) prefetch_to_l2(norm.weight + (lane + k * kGroup) * kLine);
  wait_for_grids();
  PeerCall calls[kCount];
  PeerLine<T> own[kCount], more[kCount];
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const int line = lane + k * kGroup;
    if (line >= lines) continue;
    own[k] = load_packed<kLine>(norm.x[row] + line * kLine);
    calls[k] = peer_call(peers, first + k, lane);
    send_line<T>(peers, calls[k], own[k]);
  }
  float weight[kCount][kLine];
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const int line = lane + k * kGroup;
    if (line >= lines) continue;
    more[k] = load_packed<kLine>(p.residual[row] + line * kLine);
    load_floats(norm.weight + line * kLine, weight[k]);
  }
  float squares = 0.0f;
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const int line = lane + k * kGroup;
    if (line >= lines) continue;
    float v[kLine], added[kLine];
    sum_lines<T>(peers, calls[k], own[k], v);
    unpack(pack<T>(v), v);  // as all_reduce stores it
    unpack(more[k], added);
#pragma unroll
    for (int i = 0; i < kLine; ++i) v[i] += added[i];
    own[k] = pack<T>(v);
    store_packed(p.sum[row] + line * kLine, own[k]);
    unpack(own[k], v);  // the norm uses the sum as stored
#pragma unroll
    for (int i = 0; i < kLine; ++i) squares = fmaf(v[i], v[i], squares);
  }
  squares = Group::reduce(squares, Sum{}, scratch, 0);
  const float rstd = 1.0f / sqrtf(squares / static_cast<float>(norm.width) + norm.eps);
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const int line = lane + k * kGroup;
    if (line >= lines) continue;
    float v[kLine];
    unpack(own[k], v);
#pragma unroll
    for (int i = 0; i < kLine; ++i) v[i] = v[i] * rstd * (weight[k][i] + norm.weight_offset);
    store_floats(norm.y[row] + line * kLine, v);
  }
  // All threads had read the numbers of the calls at the reduction's barrier.
  if (lane != 0) return;
  if (norm.rstd != nullptr) norm.rstd[row] = rstd;
#pragma unroll
  for (int k = 0; k < kCount; ++k) peers.calls[first + k] = calls[k].number;
  count_up(given.count);
}

int regions_of_row(int64_t width, int64_t line) {
  return static_cast<int>((width / line + PeerInboxes::kLinesOfRegion - 1) /
                          PeerInboxes::kLinesOfRegion);
}

}  // namespace

bool takes_peer_add_rms_norm(int64_t tokens, int64_t width, DType dtype) {
  constexpr int64_t kVectorBytes = 16;
  const int64_t bytes = dtype == DType::kF32 ? 4 : 2;
  if ((dtype != DType::kF32 && dtype != DType::kBF16) || width * bytes % kVectorBytes != 0 ||
      tokens < 1 || width < 1 || width > PeerInboxes::kMostBytes)
    return false;
  const int regions = regions_of_row(width, PeerInboxes::kDataBytes / bytes);
  return regions <= kMostLines && tokens * regions <= PeerInboxes::kRegions;
}

template <typename T>
bool takes_peer_add_rms_norm(const AddRmsNorm<T>& call) {
  constexpr DType kType = sizeof(T) == sizeof(float) ? DType::kF32 : DType::kBF16;
  return takes_peer_add_rms_norm(call.norm.tokens, call.norm.width, kType) && takes_vectors(call);
}

template <typename T>
cudaError_t launch_peer_add_rms_norm(const PeerLaunch& call,
                                     const AddRmsNorm<T>& p,
                                     cudaStream_t stream) {
  const int64_t lines = p.norm.width / kLineOf<T>;
  const dim3 blocks(static_cast<unsigned>(p.norm.tokens));
  const auto launch = [&](auto shape) {
    constexpr int kGroup = decltype(shape)::kGroupThreads;
    return launch_early(&peer_add_rms_norm_kernel<T, kGroup, decltype(shape)::kVectors>, blocks,
                        kGroup, 0, stream, call, p);
  };
  if (lines <= 256) return launch(RowShape<256, 1>{});
  if (lines <= 512) return launch(RowShape<512, 1>{});
  switch (regions_of_row(p.norm.width, kLineOf<T>)) {
    case 1:
      return launch(RowShape<1024, 1>{});
    case 2:
      return launch(RowShape<1024, 2>{});
    case 3:
      return launch(RowShape<1024, 3>{});
    case kMostLines:
      return launch(RowShape<1024, kMostLines>{});
    default:
      return cudaErrorInvalidValue;
  }
}

template bool takes_peer_add_rms_norm(const AddRmsNorm<float>&);
template bool takes_peer_add_rms_norm(const AddRmsNorm<uint16_t>&);
template cudaError_t launch_peer_add_rms_norm(const PeerLaunch&,
                                              const AddRmsNorm<float>&,
                                              cudaStream_t);
template cudaError_t launch_peer_add_rms_norm(const PeerLaunch&,
                                              const AddRmsNorm<uint16_t>&,
                                              cudaStream_t);

}  // namespace ridge::backends::cuda
