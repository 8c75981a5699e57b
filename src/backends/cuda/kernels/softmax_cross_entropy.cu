// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy: the forward reads the logits once, the backward reads and writes once.
#include "backends/cuda/kernels/softmax_cross_entropy.h"

#include <algorithm>

#include "backends/cuda/kernels/last_blocks.cuh"
#include "backends/cuda/kernels/map_rows.cuh"
#include "backends/cuda/kernels/mean_loss.cuh"
#include "backends/cuda/kernels/softmax_online.cuh"

namespace ridge::backends::cuda {
namespace {

// Blocks, and so partial sums, by a block's threads: 1024 threads on each of 132 multiprocessors.
// While some rows are reduced, others must load. A constant, because the sums' order must not
// follow the device.
constexpr int64_t most_blocks(int threads) { return int64_t{132} * 1024 / threads; }
constexpr int64_t kMostPartials = most_blocks(128);

// Groups of 32 lanes in large blocks: the fewer partial sums, the sooner they are added up.
template <int kGroup>
using LossGroup = RowGroup<kGroup, 512>;

// Vectors of a row that a thread holds at a time.
constexpr int kPieceVectors = 4;

// A piece of a row, a vector of each thread after the other. Columns past the row's end are
// -infinity, which changes neither maximum nor sum.
template <typename T, int kGroup, int kVector>
struct RowPiece {
  static constexpr int kVectors = kPieceVectors * kGroup;
  Packed<T, kVector> raw[kPieceVectors];

  __device__ __forceinline__ void load(const T* x, int first, int end, int lane) {
    float nothing[kVector];
#pragma unroll
    for (int i = 0; i < kVector; ++i) nothing[i] = kMinusInfinity;
#pragma unroll
    for (int k = 0; k < kPieceVectors; ++k) {
      raw[k] = pack<T, kVector>(nothing);
      const int vector = first + lane + k * kGroup;
      if (vector < end) raw[k] = load_packed<kVector>(x + int64_t{vector} * kVector);
    }
  }
};

template <typename T>
using CrossEntropyCall = Ticketed<Watched<SoftmaxCrossEntropy<T>>>;

// By every thread: the blocks' sums, added up by the last block to come.
template <int kThreads>
__device__ __forceinline__ void write_mean_of_partials(LossSum part,
                                                       LossSum* partials,
                                                       int32_t* tickets,
                                                       float* loss,
                                                       int32_t* count) {
  const int blocks = static_cast<int>(gridDim.x);
  if (threadIdx.x == 0) partials[blockIdx.x] = part;
  if (join_last_blocks(tickets, blocks, 1) < 0) return;
  part = {0.0, 0};
#pragma unroll 8
  for (int i = static_cast<int>(threadIdx.x); i < blocks; i += kThreads) {
    // Other blocks wrote them: not through a cache of this one.
    const volatile LossSum* other = partials + i;
    part.sum += other->sum;
    part.count += other->count;
  }
  write_mean_loss(reduce_losses<kThreads>(part), loss, count);
  leave_last_blocks(tickets, 1);
}

// Mapping: groups walk rows gridDim apart, with the next piece on its way. Bound: memory,
// N V sizeof(T) read, once however long a row is; in bf16 the exponentials take about two thirds of
// that time of the special-function units.
template <typename T, int kGroup, int kVector>
__global__ void __launch_bounds__(LossGroup<kGroup>::kThreads, 1024 / LossGroup<kGroup>::kThreads)
    softmax_cross_entropy_kernel(const __grid_constant__ CrossEntropyCall<T> p) {
  using Group = LossGroup<kGroup>;
  using Piece = RowPiece<T, kGroup, kVector>;
  __shared__ ReduceScratch scratch;
  __shared__ LossSum sums[Group::kRows];
  const int64_t stride = static_cast<int64_t>(gridDim.x) * Group::kRows;
  const int vectors = static_cast<int>(p.vocabulary / kVector);
  LossSum part{0.0, 0};
  Piece next;
  int32_t next_label = -1;
  auto fetch = [&](int64_t row, int first) {
    if (row >= p.tokens) return;
    next.load(p.logits[row], first, vectors, Group::lane());
    next_label = p.labels[row];
  };
  wait_for_grids();
  int64_t row = Group::first_row();
  fetch(row, 0);
  for (; row < p.tokens; row += stride) {
    const int32_t given = next_label, label = checked_index(given, p.vocabulary);
    const float at_label = label < 0 ? 0.0f : to_float(p.logits[row][label]);
    OnlineSum seen;
    for (int end = Piece::kVectors;; end += Piece::kVectors) {
      const Piece held = next;
      const bool is_last = kGroup == kLanes || end >= vectors;
      fetch(is_last ? row + stride : row, is_last ? 0 : end);
      gather_lanes();  // else the compiler puts these loads behind the arithmetic
      seen.add(held.raw, kLog2OfE);
      if (is_last) break;
    }
    const OnlineSum all = seen.template reduce<Group>(kLog2OfE, scratch);
    if (Group::lane() != 0) continue;
    note_bad_row(given, p.vocabulary, row, p.bad_row);
    const double lse = static_cast<double>(all.top) + static_cast<double>(logf(all.sum));
    p.lse[row] = static_cast<float>(lse);
    if (label < 0) continue;
    part.sum += lse - static_cast<double>(at_label);
    ++part.count;
  }
  if constexpr (Group::kRows > 1) {  // the block's groups in order
    if (Group::lane() == 0) sums[threadIdx.x / kGroup] = part;
    __syncthreads();
    part = {0.0, 0};
    for (const LossSum& each : sums) part.sum += each.sum, part.count += each.count;
  }
  write_mean_of_partials<Group::kThreads>(part, reinterpret_cast<LossSum*>(p.workspace), p.tickets,
                                          p.loss, p.count);
}

// Bound: memory, 2 N V sizeof(T).
template <typename T, int kCount>
struct CrossEntropyBackwardBody {
  static constexpr int kVector = kCount;
  struct Item {
    Packed<T, kCount> x;
    float lse;
    int32_t label;
  };
  Watched<SoftmaxCrossEntropyBackward<T>> p;

  __device__ __forceinline__ void load(Item& item, MapPlace at) const {
    item.x = load_packed<kCount>(p.logits[at.row] + at.column);
    item.lse = p.lse[at.row];
    item.label = p.labels[at.row];
  }
  __device__ __forceinline__ void finish(const Item& item, MapPlace at) const {
    float v[kCount];
    unpack(item.x, v);
    if (at.column == 0) note_bad_row(item.label, p.vocabulary, at.row, p.bad_row);
    const int32_t label = checked_index(item.label, p.vocabulary);
    const float each = label < 0 ? 0.0f : *p.d_loss / static_cast<float>(*p.count);
    const int32_t from_first = label - static_cast<int32_t>(at.column);
#pragma unroll
    for (int i = 0; i < kCount; ++i) v[i] = exp_difference<T>(v[i], item.lse, kLog2OfE);
    if (from_first >= 0 && from_first < kCount) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) v[i] -= i == from_first ? 1.0f : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) v[i] = label < 0 ? 0.0f : v[i] * each;
    store_floats(p.d_logits[at.row] + at.column, v);
  }
};

template <int kGroup, int kVector, typename T>
void launch_rows(const CrossEntropyCall<T>& call, cudaStream_t stream) {
  using Group = LossGroup<kGroup>;
  const int64_t blocks = std::clamp<int64_t>((call.tokens + Group::kRows - 1) / Group::kRows, 1,
                                             most_blocks(Group::kThreads));
  launch_early(softmax_cross_entropy_kernel<T, kGroup, kVector>, static_cast<unsigned>(blocks),
               Group::kThreads, 0, stream, call);
}

// 32 lanes for rows that are one piece of theirs; else groups whose threads take up to 32 vectors,
// since rows that are reduced and rows that load must be on a multiprocessor together.
template <int kVector, typename T>
void launch_forward(const CrossEntropyCall<T>& call, cudaStream_t stream) {
  const int64_t vectors = call.vocabulary / kVector;
  if (vectors <= kPieceVectors * kLanes) {
    launch_rows<kLanes, kVector>(call, stream);
  } else if (vectors <= 4096) {
    launch_rows<128, kVector>(call, stream);
  } else {
    launch_rows<512, kVector>(call, stream);
  }
}

template <int kCount, typename T>
cudaError_t launch_backward(const Watched<SoftmaxCrossEntropyBackward<T>>& call,
                            cudaStream_t stream) {
  return launch_map_rows<CrossEntropyBackwardBody<T, kCount>>(
      CrossEntropyBackwardBody<T, kCount>{call}, call.tokens, call.vocabulary, stream);
}

}  // namespace

int64_t softmax_cross_entropy_workspace_bytes(int64_t tokens) {
  return std::clamp<int64_t>(tokens, 1, kMostPartials) * static_cast<int64_t>(sizeof(LossSum));
}

template <typename T>
cudaError_t launch_softmax_cross_entropy(const CrossEntropyCall<T>& call, cudaStream_t stream) {
  if (call.tokens < 0 || call.tokens >= int64_t{1} << 31 || call.vocabulary <= 0 ||
      call.vocabulary >= int64_t{1} << 31)
    return cudaErrorInvalidValue;
  constexpr int kVector = kVectorOf<T>;
  const bool vectors = call.vocabulary % kVector == 0 && takes_vectors<kVector>(call.logits);
  if (vectors) {
    launch_forward<kVector>(call, stream);
  } else {
    launch_forward<1>(call, stream);
  }
  return cudaGetLastError();
}

template <typename T>
cudaError_t launch_softmax_cross_entropy_backward(
    const Watched<SoftmaxCrossEntropyBackward<T>>& call,
    cudaStream_t stream) {
  constexpr int kCount = kVectorOf<T>;
  const bool vectors = call.vocabulary % kCount == 0 && takes_vectors<kCount>(call.logits) &&
                       takes_vectors<kCount>(call.d_logits);
  return vectors ? launch_backward<kCount>(call, stream) : launch_backward<1>(call, stream);
}

template cudaError_t launch_softmax_cross_entropy(const CrossEntropyCall<float>&, cudaStream_t);
template cudaError_t launch_softmax_cross_entropy(const CrossEntropyCall<uint16_t>&, cudaStream_t);
template cudaError_t launch_softmax_cross_entropy_backward(
    const Watched<SoftmaxCrossEntropyBackward<float>>&,
    cudaStream_t);
template cudaError_t launch_softmax_cross_entropy_backward(
    const Watched<SoftmaxCrossEntropyBackward<uint16_t>>&,
    cudaStream_t);

}  // namespace ridge::backends::cuda
