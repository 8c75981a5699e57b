// SPDX-License-Identifier: Apache-2.0
// How fragment_gemm.cu divides a product between clusters, blocks and warps, and a block's shared
// memory. Contains no kernel.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cuda/kernels/async_copy.cuh"
#include "backends/cuda/kernels/gemm/fragment_tile.cuh"
#include "backends/cuda/kernels/gemm/skinny_gemm_tile.cuh"

namespace ridge::backends::cuda::skinny_gemm {

inline constexpr int kMostParts = 8;  // blocks of a cluster

struct Arguments {
  FragmentGemm call;
  int steps;  // tiles of the whole depth
  int shift;  // 2^shift blocks of a cluster, each with a part of the depth
  int units;  // tiles of 16 rows
  int each;   // units of a cluster; the first `more` clusters have one more
  int more;
  int row_step;  // elements between tokens in shared memory
  int rows;      // tokens in shared memory
  int inverse;   // 2^16 by the tokens, rounded up

  __host__ __device__ __forceinline__ int parts() const { return 1 << shift; }
};

// Where the two tiles of a unit are: two after another, or with an activation a tile of gates and
// that of what they multiply. Rows after the last are read twice.
struct UnitTiles {
  int upper, lower;
  __device__ __forceinline__ UnitTiles(const Arguments& p, int unit) {
    const int row_blocks = static_cast<int>(p.call.product.weight_rows / kFragmentRows);
    const bool is_gated = p.call.product.activation != GemmActivation::kNone;
    unit = min(unit, p.units - 1);
    upper = is_gated ? unit : 2 * unit;
    lower = is_gated ? unit + row_blocks / 2 : min(upper + 1, row_blocks - 1);
  }
};

// Starts the copy of a tile. `to` and `from` are this lane's.
template <int kBytes>
__device__ __forceinline__ void copy_tile(std::byte* to, const uint8_t* from) {
  constexpr int kVectors = kBytes / 16;
#pragma unroll
  for (int i = 0; i < kVectors; i += kLanes)
    if (i + kLanes <= kVectors || static_cast<int>(threadIdx.x) % kLanes < kVectors - i)
      copy_async(to + i * 16, from + i * 16);
}

__device__ __forceinline__ float4 added(const float4& x, const float4& y) {
  return make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
}

// Sizes that follow from the number of tokens.
template <class LaneType, int kGroupCount>
struct Form {
  using Lane = LaneType;
  static constexpr int kGroups = kGroupCount;  // 8 tokens each
  static constexpr int kTokens = 8 * kGroups;
  static constexpr int kBlockWarps = kGroups == 1 ? 16 : 12;
  static constexpr int kBlockThreads = kBlockWarps * kLanes;
  static constexpr int kTileBytes = sizeof(typename Lane::Tile);
  static constexpr int kCopyBytes = 2 * kTileBytes;
  // Whether copies start before the tokens are loaded, which then arrive behind them. Weights of 4
  // bits are bound by instructions, so tokens come first; wider ones are bound by memory.
  static constexpr bool kCopiesFirst = kTileBytes > 1280;
  static constexpr int kSlots = 32;  // sums of units, kGroups vectors of a lane each

  // A batch of units whose sums have slots: whole units for each warp, or few ones in parts.
  static __host__ __device__ constexpr int batch_of(int units) {
    constexpr int kFew = kSlots - kBlockWarps + 1;
    if (units <= kFew) return units;
    const int whole = (units < kSlots ? units : kSlots) / kBlockWarps * kBlockWarps;
    return whole > 0 ? whole : kFew;
  }
  static constexpr int batches_of(int units) {
    int batches = 0;
    for (; units > 0; units -= batch_of(units)) ++batches;
    return batches;
  }

  // ---- shared memory: tokens, their scales, their sums, a copy per warp, the slots ----
  static __host__ __device__ constexpr int64_t scales_at(int rows, int row_step) {
    return int64_t{rows} * row_step * 2;
  }
  static __host__ __device__ constexpr int64_t sums_at(int rows, int row_step, int steps) {
    return scales_at(rows, row_step) + int64_t{steps} * kTokens * 4;
  }
  static __host__ __device__ constexpr int64_t copies_at(int rows, int row_step, int steps) {
    return sums_at(rows, row_step, steps) +
           (Lane::kHasMins ? int64_t{steps} * rows * fragments::kWords * 4 : 0);
  }
  static __host__ __device__ constexpr int64_t slots_at(int rows, int row_step, int steps) {
    return copies_at(rows, row_step, steps) + kBlockWarps * kCopyBytes;
  }
  static __host__ __device__ constexpr int64_t bytes(int rows, int row_step, int steps) {
    return slots_at(rows, row_step, steps) + kSlots * kGroups * kLanes * 16;
  }
};

// The tiles of the depth of block `part` of a cluster.
struct Depth {
  int begin, steps;
  __host__ __device__ __forceinline__ Depth(int part, const Arguments& p)
      : begin(part * p.steps >> p.shift), steps(((part + 1) * p.steps >> p.shift) - begin) {}
};
__host__ __device__ constexpr int most_steps(int steps, int parts) {
  return (steps + parts - 1) / parts;
}

// A warp's way through its tiles: batch by batch, within a batch from one row of tiles to the next.
template <class Form>
struct Path {
  int steps;             // tiles of a row of tiles
  int first, units;      // the batch
  int remaining;         // units after the batch
  int unit, step, left;  // where the warp is in the batch, and its tiles from there on

  __device__ __forceinline__ Path(const Arguments& p, int cluster, int own_steps)
      : steps(own_steps), first(cluster * p.each + min(cluster, p.more)), units(0) {
    remaining = p.each + (cluster < p.more ? 1 : 0);
    next_batch();
  }
  __device__ __forceinline__ void next_batch() {
    first += units;
    units = Form::batch_of(remaining);
    remaining -= units;
    const int warp = static_cast<int>(threadIdx.x) / kLanes, all = units * steps;
    const int begin = warp * all / Form::kBlockWarps;
    left = (warp + 1) * all / Form::kBlockWarps - begin;
    unit = static_cast<int>(static_cast<uint32_t>(begin) / static_cast<uint32_t>(steps));
    step = begin - unit * steps;
  }
  __device__ __forceinline__ void advance() {
    --left;
    if (++step == steps) step = 0, ++unit;
  }
  // Where the sums of a unit are that this warp has a part of.
  __device__ __forceinline__ int slot(int warp) const {
    return units % Form::kBlockWarps == 0 ? unit : unit + warp;
  }
};

// Where a block has the sum of a unit of a batch: in the slot of the first warp with a part. The
// warps with a part are bits.
template <class Form>
struct Parts {
  uint32_t warps;
  int slot;

  // Called by whole warps.
  __device__ __forceinline__ Parts(int unit, int units, int steps) : warps(1), slot(unit) {
    if (units % Form::kBlockWarps == 0) return;
    const int warp = static_cast<int>(threadIdx.x) % kLanes, all = units * steps,
              begin = warp * all / Form::kBlockWarps, end = (warp + 1) * all / Form::kBlockWarps;
    warps = __ballot_sync(0xffffffffu, warp < Form::kBlockWarps && begin < end &&
                                           begin < (unit + 1) * steps && end > unit * steps);
    slot = unit + __ffs(static_cast<int>(warps)) - 1;
  }
};

}  // namespace ridge::backends::cuda::skinny_gemm
