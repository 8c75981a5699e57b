// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy: the forward pass reads the logits once, the backward pass reads and writes
// once.
#include "backends/cuda/kernels/losses/softmax_cross_entropy.h"

#include <algorithm>

#include "backends/cuda/kernels/last_blocks.cuh"
#include "backends/cuda/kernels/losses/mean_loss.cuh"
#include "backends/cuda/kernels/map_rows.cuh"
#include "backends/cuda/kernels/softmax/softmax_online.cuh"

namespace ridge::backends::cuda {
namespace {

// The number of blocks, and so of partial sums, by a block's threads: 1024 threads on each of 132
// multiprocessors. While some rows are reduced, others must load. A constant, because the order of
// summation must not depend on the device.
constexpr int64_t most_blocks(int threads) { return int64_t{132} * 1024 / threads; }
constexpr int64_t kMostPartials = most_blocks(128);

// Vectors of a row per thread at a time.
constexpr int kPieceVectors = 4;

// A piece of a row; consecutive threads hold consecutive vectors. Columns past the row's end are
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

// In a part of the vocabulary, V is a label of another part.
template <typename Call>
__device__ __forceinline__ int64_t end_of_labels(const Call& call) {
  return call.vocabulary + (call.is_part ? 1 : 0);
}

template <typename T>
using CrossEntropyCall = Ticketed<Watched<SoftmaxCrossEntropy<T>>>;

// Called by every thread; the first one holds its block's sum. The last block to arrive adds up the
// sums of all blocks.
template <int kThreads>
__device__ __forceinline__ void write_mean_of_partials(LossSum part,
                                                       LossSum* partials,
                                                       int32_t* ticket,
                                                       float* loss,
                                                       int32_t* count) {
  __shared__ bool is_last;
  const int blocks = static_cast<int>(gridDim.x);
  if (threadIdx.x == 0) {
    partials[blockIdx.x] = part;
    is_last = comes_last(ticket, blocks);
  }
  __syncthreads();
  if (!is_last) return;
  part = {0.0, 0};
#pragma unroll 8
  for (int i = static_cast<int>(threadIdx.x); i < blocks; i += kThreads) {
    // Written by other blocks, so bypass this block's cache.
    const volatile LossSum* other = partials + i;
    part.sum += other->sum;
    part.count += other->count;
  }
  write_mean_loss(reduce_losses<kThreads>(part), loss, count);
}

// Mapping: groups iterate over rows gridDim apart and prefetch the next piece. Bound: memory, N V
// sizeof(T), read once for any length of row; in bf16 the exponentials take about two thirds of
// that time on the special-function units.
template <typename T, int kGroup, int kVector>
__global__ void __launch_bounds__(kGroup, 1024 / kGroup)
    softmax_cross_entropy_kernel(const __grid_constant__ CrossEntropyCall<T> p) {
  using Group = RowGroup<kGroup>;
  using Piece = RowPiece<T, kGroup, kVector>;
  static_assert(Group::kWhole);
  __shared__ ReduceScratch scratch;
  const int64_t stride = gridDim.x;
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
      const bool is_last = end >= vectors;
      fetch(is_last ? row + stride : row, is_last ? 0 : end);
      gather_lanes();  // otherwise the compiler moves these loads after the arithmetic
      seen.add(held.raw, kLog2OfE);
      if (is_last) break;
    }
    const OnlineSum all = seen.template reduce<Group>(kLog2OfE, scratch);
    if (Group::lane() != 0) continue;
    note_bad_row(given, end_of_labels(p), row, p.bad_row);
    const double lse = static_cast<double>(all.top) + static_cast<double>(logf(all.sum));
    p.lse[row] = static_cast<float>(lse);
    if (p.is_part) p.at_label[row] = at_label;
    if (label < 0) continue;
    part.sum += lse - static_cast<double>(at_label);
    ++part.count;
  }
  if (p.is_part) return;
  write_mean_of_partials<kGroup>(part, reinterpret_cast<LossSum*>(p.workspace), p.tickets, p.loss,
                                 p.count);
}

constexpr int kShortThreads = 512;
constexpr int kShortWarps = kShortThreads / kLanes;

// Loads a row into 32 lanes, kCount vectors each. Columns past its end are -infinity, which changes
// neither maximum nor sum.
template <typename T, int kVector, int kCount>
__device__ __forceinline__ void load_short_row(Packed<T, kVector> (&raw)[kCount],
                                               const T* x,
                                               int vectors,
                                               int lane) {
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const int vector = lane + k * kLanes;
    if (k + 1 < kCount || vector < vectors) {
      raw[k] = load_packed<kVector>(x + vector * kVector);
    } else {
      float nothing[kVector];
#pragma unroll
      for (int i = 0; i < kVector; ++i) nothing[i] = kMinusInfinity;
      raw[k] = pack<T, kVector>(nothing);
    }
  }
}

// Mapping: one warp per row without prefetch: the multiprocessor's other warps load meanwhile. A
// block takes consecutive rows, `rows_per_warp` for each warp. Lane t keeps the result of the
// warp's row t, so that logarithms and labels are computed for 32 rows at a time. Bound: memory, N
// V sizeof(T); for 1000 bf16 columns about 190 instructions and 32 exponentials per lane for 2000
// bytes, 40% of what the schedulers issue in that time. The end of the blocks takes 2 us.
template <typename T, int kVector, int kCount>
__global__ void __launch_bounds__(kShortThreads, 1024 / kShortThreads)
    softmax_cross_entropy_short_kernel(const __grid_constant__ CrossEntropyCall<T> p,
                                       const int rows_per_warp) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int vectors = static_cast<int>(p.vocabulary / kVector);
  const auto tokens = static_cast<uint32_t>(p.tokens);  // below 2^31
  const uint32_t first =
      blockIdx.x * (static_cast<uint32_t>(rows_per_warp) * kShortWarps) + threadIdx.x / kLanes;
  const T* x = p.logits[first];
  LossSum part{0.0, 0};
  wait_for_grids();
  for (int begin = 0; begin < rows_per_warp; begin += kLanes) {
    const uint32_t next = first + static_cast<uint32_t>(begin) * kShortWarps,
                   own = next + static_cast<uint32_t>(lane) * kShortWarps;
    const uint32_t left = next < tokens ? (tokens - next + kShortWarps - 1) / kShortWarps : 0;
    const int rows =
        static_cast<int>(min(left, static_cast<uint32_t>(min(kLanes, rows_per_warp - begin))));
    const int32_t given = lane < rows ? p.labels[own] : -1,
                  label = checked_index(given, p.vocabulary);
    float top = 0.0f, sum = 1.0f, at_label = 0.0f;
#pragma unroll 1
    for (int row = 0; row < rows; ++row, x += kShortWarps * p.logits.stride) {
      Packed<T, kVector> raw[kCount];
      load_short_row(raw, x, vectors, lane);
      const float of_row = max_of_lanes(fmaxf(max_element(raw), kMinusInfinity));
      if (row == lane && label >= 0) at_label = to_float(x[label]);
      OnlineSum seen{of_row, 0.0f};
      seen.add(raw, kLog2OfE, of_row);
      const float all = reduce_lanes(seen.sum, Sum{});
      if (row == lane) top = of_row, sum = all;
    }
    if (lane >= rows) continue;
    note_bad_row(given, end_of_labels(p), own, p.bad_row);
    const double lse = static_cast<double>(top) + static_cast<double>(logf(sum));
    p.lse[own] = static_cast<float>(lse);
    if (p.is_part) p.at_label[own] = at_label;
    if (label < 0) continue;
    part.sum += lse - static_cast<double>(at_label);
    ++part.count;
  }
  if (p.is_part) return;
  write_mean_of_partials<kShortThreads>(reduce_losses<kShortThreads>(part),
                                        reinterpret_cast<LossSum*>(p.workspace), p.tickets, p.loss,
                                        p.count);
}

// Bound: memory, 2 N V sizeof(T).
template <typename T, int kCount>
struct CrossEntropyBackwardBody {
  static constexpr int kVector = kCount;
  struct LoadedVectors {
    Packed<T, kCount> x;
    float lse;
    int32_t label;
  };
  Watched<SoftmaxCrossEntropyBackward<T>> p;

  __device__ __forceinline__ void load(LoadedVectors& item, MapPlace at) const {
    item.x = load_packed<kCount>(p.logits[at.row] + at.column);
    item.lse = p.lse[at.row];
    item.label = p.labels[at.row];
  }
  __device__ __forceinline__ void finish(const LoadedVectors& item, MapPlace at) const {
    float v[kCount];
    unpack(item.x, v);
    if (at.column == 0) note_bad_row(item.label, end_of_labels(p), at.row, p.bad_row);
    const int32_t label = checked_index(item.label, end_of_labels(p));
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
  const int64_t blocks = std::clamp<int64_t>(call.tokens, 1, most_blocks(kGroup));
  launch_early(softmax_cross_entropy_kernel<T, kGroup, kVector>, static_cast<unsigned>(blocks),
               kGroup, 0, stream, call);
}

template <int kVector, int kCount, typename T>
void launch_short_rows(const CrossEntropyCall<T>& call, cudaStream_t stream) {
  const int64_t rows_at_once = most_blocks(kShortThreads) * kShortWarps;
  const int64_t rows_per_warp =
      std::max<int64_t>((call.tokens + rows_at_once - 1) / rows_at_once, 1);
  const int64_t rows = rows_per_warp * kShortWarps;  // rows of a block
  const int64_t blocks = std::max<int64_t>((call.tokens + rows - 1) / rows, 1);
  launch_early(softmax_cross_entropy_short_kernel<T, kVector, kCount>,
               static_cast<unsigned>(blocks), kShortThreads, 0, stream, call,
               static_cast<int>(rows_per_warp));
}

// One warp per row if it can hold the row; otherwise groups whose threads take up to 32 vectors,
// since a multiprocessor must run rows that are reduced and rows that load at the same time.
template <int kVector, typename T>
void launch_forward(const CrossEntropyCall<T>& call, cudaStream_t stream) {
  const int64_t vectors = call.vocabulary / kVector;
  if (vectors <= kLanes) {
    launch_short_rows<kVector, 1>(call, stream);
  } else if (vectors <= 2 * kLanes) {
    launch_short_rows<kVector, 2>(call, stream);
  } else if (vectors <= 3 * kLanes) {
    launch_short_rows<kVector, 3>(call, stream);
  } else if (vectors <= 4 * kLanes) {
    launch_short_rows<kVector, 4>(call, stream);
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
