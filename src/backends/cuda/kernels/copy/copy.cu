// SPDX-License-Identifier: Apache-2.0
// Strided copies: runs and repeated elements are copied as vectors, transpositions through a tile
// in shared memory, and everything else element by element.
#include "backends/cuda/kernels/copy/copy.h"

#include <type_traits>

#include "backends/cuda/kernels/copy/strided_access.cuh"
#include "backends/cuda/kernels/copy/transposed_tile.cuh"
#include "backends/cuda/kernels/early_start.cuh"

namespace ridge::backends::cuda {
namespace {

// Copies bits if nothing is computed: a round trip through float would change the bits of a NaN.
template <typename From, typename To, int kCount>
__device__ __forceinline__ void move(const Packed<From, kCount>& from, To* to, bool accumulate) {
  if constexpr (std::is_same_v<From, To>) {
    if (!accumulate) {
      store_packed(to, from);
      return;
    }
  }
  float v[kCount];
  unpack(from, v);
  if (accumulate) {
    float old[kCount];
    load_floats(to, old);
#pragma unroll
    for (int i = 0; i < kCount; ++i) v[i] += old[i];
  }
  store_floats(to, v);
}

// Bound: memory, elements (sizeof(From) + sizeof(To)), plus sizeof(To) per element to accumulate. A
// source that repeats along the innermost axis is loaded once per vector.
template <typename From, typename To, int kCount, bool kRepeats>
struct CopyBody {
  static constexpr int kVector = kCount;
  struct LoadedVectors {
    Packed<From, kRepeats ? 1 : kCount> source;
    int64_t target;
  };
  StridedAccess<2> access;
  const From* source;
  To* target;
  bool accumulate;

  __device__ __forceinline__ void load(LoadedVectors& item, MapPlace at) const {
    int64_t offsets[2];
    access.locate(at.column / kCount, offsets);
    item.target = offsets[0];
    item.source = load_packed < kRepeats ? 1 : kCount > (source + offsets[1]);
  }
  __device__ __forceinline__ void finish(const LoadedVectors& item, MapPlace) const {
    if constexpr (kRepeats && kCount > 1) {
      Packed<From, kCount> all;
      auto* elements = reinterpret_cast<typename Packed<From, 1>::Word*>(all.words);
#pragma unroll
      for (int i = 0; i < kCount; ++i) elements[i] = item.source.words[0];
      move<From, To>(all, target + item.target, accumulate);
    } else {
      move<From, To>(item.source, target + item.target, accumulate);
    }
  }
};

// The last axis is contiguous in the target, the one before it in the source.
template <typename From, typename To>
struct Transpose {
  StridedAccess<2> outer;
  FastDivide across_tiles, inner_tiles;
  int64_t across, inner;
  int64_t across_target, inner_source;
  const From* source;
  To* target;
  bool accumulate;
};

// Mapping: one tile per block. Bound: memory, as for CopyBody.
template <int kTile, typename From, typename To>
__global__ void __launch_bounds__(kTransposeThreads)
    transpose_kernel(const __grid_constant__ Transpose<From, To> p) {
  uint32_t rest = p.inner_tiles.quotient(blockIdx.x);
  const int64_t inner = static_cast<int64_t>(blockIdx.x - rest * p.inner_tiles.divisor) * kTile;
  const uint32_t outer = p.across_tiles.quotient(rest);
  const int64_t across = static_cast<int64_t>(rest - outer * p.across_tiles.divisor) * kTile;
  int64_t offsets[2];
  p.outer.locate(outer, offsets);
  wait_for_grids();
  transpose_tile<kTile>(p.source + offsets[1], p.inner_source, p.target + offsets[0],
                        p.across_target, p.inner, p.across, inner, across, p.accumulate);
}

template <int kTile, typename From, typename To>
cudaError_t launch_tiles(const Copy<From, To>& call, LayoutPlan<2> plan, cudaStream_t stream) {
  const int last = plan.rank - 1;
  Transpose<From, To> p{StridedAccess<2>({}, 1),
                        {},
                        {},
                        plan.extents[last - 1],
                        plan.extents[last],
                        plan.strides[0][last - 1],
                        plan.strides[1][last],
                        call.source,
                        call.target,
                        call.accumulate};
  const int64_t across_tiles = (p.across + kTile - 1) / kTile,
                inner_tiles = (p.inner + kTile - 1) / kTile;
  plan.rank -= 2;
  p.outer = StridedAccess<2>(plan, 1);
  p.across_tiles = FastDivide(across_tiles);
  p.inner_tiles = FastDivide(inner_tiles);
  const int64_t outer = plan.elements();
  if (outer >= (int64_t{1} << 31) / across_tiles / inner_tiles) return cudaErrorInvalidValue;
  const auto blocks = static_cast<unsigned>(outer * across_tiles * inner_tiles);
  return launch_early(transpose_kernel<kTile, From, To>, blocks, kTransposeThreads, 0, stream, p);
}

template <typename From, typename To>
cudaError_t launch_transpose(const Copy<From, To>& call,
                             const LayoutPlan<2>& plan,
                             cudaStream_t stream) {
  const int64_t tiles = plan.elements() / kLargeTile / kLargeTile;
  return tiles < kFewTiles ? launch_tiles<kSmallTile>(call, plan, stream)
                           : launch_tiles<kLargeTile>(call, plan, stream);
}

template <int kCount, bool kRepeats, typename From, typename To>
cudaError_t launch_vectors(const Copy<From, To>& call,
                           const LayoutPlan<2>& plan,
                           cudaStream_t stream) {
  const CopyBody<From, To, kCount, kRepeats> body{StridedAccess<2>(plan, kCount), call.source,
                                                  call.target, call.accumulate};
  return launch_map_rows<CopyBody<From, To, kCount, kRepeats>>(body, 1, plan.elements(), stream);
}

// Moves an axis along which the source is contiguous next to the last axis. Returns false if no
// such axis is long enough for tiles.
bool move_across(LayoutPlan<2>& plan) {
  constexpr int64_t kShort = 8;  // a tile of fewer rows is mostly empty
  const int last = plan.rank - 1;
  if (plan.rank < 2 || plan.strides[0][last] != 1 || plan.extents[last] < kShort) return false;
  for (int axis = 0; axis < last; ++axis) {
    if (plan.strides[1][axis] != 1 || plan.extents[axis] < kShort) continue;
    for (int i = axis; i + 1 < last; ++i) plan.swap_axes(i, i + 1);
    return true;
  }
  return false;
}

template <typename From, typename To>
cudaError_t launch_part(const Copy<From, To>& call, LayoutPlan<2> plan, cudaStream_t stream) {
  // Adjacent 16-byte stores; wider loads cost nothing.
  constexpr int kCount = kVectorOf<To>;
  if (plan.inner_stride(0) == 1 && access_takes_vectors<kCount>(plan, 0, sizeof(To), call.target) &&
      access_takes_vectors<kCount>(plan, 1, sizeof(From), call.source)) {
    return plan.inner_stride(1) == 0 ? launch_vectors<kCount, true>(call, plan, stream)
                                     : launch_vectors<kCount, false>(call, plan, stream);
  }
  if (plan.inner_stride(1) > 1 && move_across(plan)) return launch_transpose(call, plan, stream);
  return launch_vectors<1, false>(call, plan, stream);
}

}  // namespace

template <typename From, typename To>
cudaError_t launch_copy(const Copy<From, To>& call, cudaStream_t stream) {
  static_assert(kCopyMaxRank == kPlanMaxRank);
  LayoutPlan<2> plan;
  plan.rank = call.layout.rank;
  if (plan.rank < 0 || plan.rank > kPlanMaxRank) return cudaErrorInvalidValue;
  for (int axis = 0; axis < plan.rank; ++axis) {
    plan.extents[axis] = call.layout.extents[axis];
    plan.strides[0][axis] = call.layout.target_strides[axis];
    plan.strides[1][axis] = call.layout.source_strides[axis];
  }
  if (!plan.is_valid()) return cudaErrorInvalidValue;
  if (plan.elements() == 0) return cudaSuccess;
  plan.simplify();
  return launch_parts(plan, [&](const LayoutPlan<2>& part, const std::array<int64_t, 2>& offsets) {
    Copy<From, To> moved = call;
    moved.target += offsets[0];
    moved.source += offsets[1];
    return launch_part(moved, part, stream);
  });
}

template cudaError_t launch_copy(const Copy<float, float>&, cudaStream_t);
template cudaError_t launch_copy(const Copy<float, uint16_t>&, cudaStream_t);
template cudaError_t launch_copy(const Copy<uint16_t, float>&, cudaStream_t);
template cudaError_t launch_copy(const Copy<uint16_t, uint16_t>&, cudaStream_t);

}  // namespace ridge::backends::cuda
