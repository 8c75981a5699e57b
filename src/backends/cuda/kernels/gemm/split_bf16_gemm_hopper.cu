// SPDX-License-Identifier: Apache-2.0
// The kernel of split_bf16_gemm.h, for Hopper only. Elsewhere cuBLAS is used.
//
// A block computes 128 rows by 128 or 64 columns of C, 64 of the depth at a time. The copy engine
// (TMA) loads fp32 tiles. The producer warpgroup splits B's tile into bf16 pieces in shared memory;
// each of two consumer warpgroups splits 64 rows of A's tile in registers and multiplies. If there
// are few results, a cluster of blocks splits the depth and sums through shared memory in the order
// of the parts.
// Bound: 12 M N K FLOPs at the bf16 rate, which is also about what shared memory delivers.
#include <algorithm>

#include "backends/cuda/kernels/device_attribute.h"
#include "backends/cuda/kernels/gemm/split_bf16_gemm.h"
#include "backends/cuda/kernels/gemm/wgmma_product.cuh"
#include "backends/cuda/kernels/tensor_map.h"

namespace ridge::backends::cuda {
namespace {

using namespace hopper;

constexpr int kRows = 128;    // rows of a block's result
constexpr int kDepth = 64;    // depth of one step
constexpr int kOwnRows = 64;  // rows of a consumer warpgroup
constexpr int kSlots = 2;
constexpr int kMultiplying = 2 * kWarpgroupThreads;
constexpr int kThreads = kMultiplying + kWarpgroupThreads;
constexpr int kLineWords = 32;  // fp32 words in a line of 128 bytes in shared memory
constexpr int kPieces = 3;      // pieces of an fp32 number
constexpr int kMostParts = 8;   // blocks per cluster

struct Arguments {
  CUtensorMap a, b;
  SplitOperand plain_a, plain_b;
  float* c;
  int64_t c_step;
  int m, n, k, steps;  // steps of the whole depth
  int row_tiles, column_tiles;
  int parts;  // parts of the depth: blocks per cluster
  int accumulate;
};

template <int kColumnsOfB, bool kAByDepth, bool kBByDepth>
struct Tile {
  static constexpr int kColumns = kColumnsOfB;
  static constexpr bool kADepth = kAByDepth, kBDepth = kBByDepth;
  static constexpr int kABytes = kRows * kDepth * 4, kBBytes = kColumns * kDepth * 4;
  static constexpr int kPieceBytes = kColumns * kDepth * 2;
  static constexpr int kBOffset = kSlots * kABytes;
  static constexpr int kPieceOffset = kBOffset + kSlots * kBBytes;
  static constexpr int kBarrierOffset = kPieceOffset + kSlots * kPieces * kPieceBytes;
  static constexpr int kFlagOffset = kBarrierOffset + 8 * 4 * kSlots;
  static constexpr int kSharedBytes = kFlagOffset + 16;
  static constexpr int kResultStep = kColumns + 4;  // in floats; puts rows on different banks
  static_assert(kSharedBytes <= 232448, "a block's shared memory");
  static_assert(kRows * kResultStep * 4 <= kPieceOffset, "the result lies where operands did");

  uint32_t base;
  __device__ uint32_t a(int slot) const { return base + slot * kABytes; }
  __device__ uint32_t b(int slot) const { return base + kBOffset + slot * kBBytes; }
  __device__ uint32_t piece(int slot, int p) const {
    return base + kPieceOffset + (slot * kPieces + p) * kPieceBytes;
  }
  __device__ uint32_t barrier(int kind, int slot) const {
    return base + kBarrierOffset + 8 * (kSlots * kind + slot);
  }
  __device__ uint32_t a_full(int slot) const { return barrier(0, slot); }
  __device__ uint32_t b_full(int slot) const { return barrier(1, slot); }
  __device__ uint32_t pieces_full(int slot) const { return barrier(2, slot); }
  __device__ uint32_t empty(int slot) const { return barrier(3, slot); }  // slots of A and pieces
  // The word is 1 if a sum of the block is infinite or NaN.
  __device__ uint32_t flag() const { return base + kFlagOffset; }
};

// The block's tile and its steps of the depth. Neighbouring blocks share eight rows of tiles, so
// that operands are still in the L2 cache.
struct DepthTile {
  int row, column, part, begin, count;

  __device__ __forceinline__ DepthTile(const Arguments& p, int columns) {
    constexpr int kBand = 8;
    part = static_cast<int>(blockIdx.x) % p.parts;
    const int tile = static_cast<int>(blockIdx.x) / p.parts, band_tiles = kBand * p.column_tiles;
    const int band = tile / band_tiles, in_band = tile % band_tiles;
    const int rows = min(kBand, p.row_tiles - band * kBand);
    row = (band * kBand + in_band % rows) * kRows;
    column = in_band / rows * columns;
    begin = part * p.steps / p.parts;
    count = (part + 1) * p.steps / p.parts - begin;
  }
};

// Copies kExtent rows of A or columns of B as [contiguous axis / 32][other axis][32] words.
template <int kExtent, bool kByDepth>
__device__ __forceinline__ void copy_tile(uint32_t to,
                                          const CUtensorMap* map,
                                          uint32_t barrier,
                                          int first,
                                          int depth) {
  constexpr int kLines = kByDepth ? kExtent : kDepth;
  constexpr int kCopies = (kByDepth ? kDepth : kExtent) / kLineWords;
  barrier_expect(barrier, kExtent * kDepth * 4);
#pragma unroll
  for (int i = 0; i < kCopies; ++i)
    copy_in_2d(to + i * kLines * kRowBytes, map, barrier,
               (kByDepth ? depth : first) + i * kLineWords, kByDepth ? first : depth);
}

// Splits two numbers into pairs of bf16; each pair is the rounded remainder of the previous ones.
__device__ __forceinline__ void split(float x, float y, uint32_t (&pieces)[kPieces]) {
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    pieces[p] = pack_bf16(x, y);
    x -= __uint_as_float(pieces[p] << 16);
    y -= __uint_as_float(pieces[p] & 0xffff0000u);
  }
}

// Splits B's tile in a slot into pieces, in the layout that the products read.
template <class Tile>
__device__ __forceinline__ void split_tile(const Tile& tile, int slot, int thread) {
  constexpr int kLines = Tile::kBDepth ? Tile::kColumns : kDepth;  // lines of a chunk of 32 words
  constexpr int kVectors = Tile::kColumns * kDepth / 4 / kWarpgroupThreads, kAtOnce = 8;
  const int row = thread / 16, vector = thread % 16;  // 16 vectors are a row of a piece
  const uint32_t from = tile.b(slot) + static_cast<uint32_t>((vector % 8 ^ row) * 16);
  const uint32_t to =
      static_cast<uint32_t>(row * kRowBytes + (vector / 2 ^ row) * 16 + vector % 2 * 8);
#pragma unroll
  for (int first = 0; first < kVectors; first += kAtOnce) {
    float4 x[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int at = 8 * (first + j), chunk = at / kLines * 2 + vector / 8;
      x[j] = load_shared_float4(
          from + static_cast<uint32_t>((chunk * kLines + at % kLines + row) * kRowBytes));
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      uint32_t low[kPieces], high[kPieces];
      split(x[j].x, x[j].y, low);
      split(x[j].z, x[j].w, high);
#pragma unroll
      for (int p = 0; p < kPieces; ++p)
        store_shared_pair(
            tile.piece(slot, p) + static_cast<uint32_t>(8 * (first + j) * kRowBytes) + to, low[p],
            high[p]);
    }
  }
}

// The producer warpgroup, which loads the operands for the others.
template <class Tile>
__device__ __forceinline__ void produce(const Arguments& p, const Tile& tile) {
  const DepthTile work(p, Tile::kColumns);
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroupThreads;
  const auto copy_a = [&](int slot, int step) {
    copy_tile<kRows, Tile::kADepth>(tile.a(slot), &p.a, tile.a_full(slot), work.row,
                                    (work.begin + step) * kDepth);
  };
  const auto copy_b = [&](int slot, int step) {
    copy_tile<Tile::kColumns, Tile::kBDepth>(tile.b(slot), &p.b, tile.b_full(slot), work.column,
                                             (work.begin + step) * kDepth);
  };
  if (thread == 0) {
    for (int i = 0; i < kSlots && i < work.count; ++i) {
      copy_b(i, i);
      copy_a(i, i);
    }
  }
  Ring<kSlots> ring;
  for (int i = 0; i < work.count; ++i, ring.advance()) {
    const int slot = ring.slot;
    barrier_wait(tile.empty(slot), ring.parity ^ 1);
    if (thread == 0 && i >= kSlots) copy_a(slot, i);
    barrier_wait(tile.b_full(slot), ring.parity);
    split_tile(tile, slot, thread);
    shared_writes_to_async();
    named_sync(1, kWarpgroupThreads);
    if (thread == 0) {
      barrier_arrive(tile.pieces_full(slot));
      if (i + kSlots < work.count) copy_b(slot, i + kSlots);
    }
  }
}

// A thread's place in the warpgroup's 64 rows of A. A fragment's rows g and g + 8 may be any rows,
// if the results are stored to the same rows. They are chosen so that reads use all banks.
template <bool kADepth>
struct OwnRows {
  int warpgroup, warp, group, place;  // warp of the warpgroup; lane / 4, lane % 4

  __device__ __forceinline__ OwnRows()
      : warpgroup(__shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0)),
        warp(static_cast<int>(threadIdx.x) % kWarpgroupThreads / 32),
        group(static_cast<int>(threadIdx.x) % 32 / 4),
        place(static_cast<int>(threadIdx.x) % 4) {}

  // The row in the block of fragment row g + 8 half.
  __device__ __forceinline__ int row(int half) const {
    return kOwnRows * warpgroup + 16 * warp +
           (kADepth ? 8 * half + 2 * (group % 4) + group / 4 : 2 * group + half);
  }
  // Loads a fragment's 16 of the depth from 16 part on; x[i] is a pair along the depth, for
  // register i.
  __device__ __forceinline__ void load(uint32_t words, int part, float2 (&x)[4]) const {
    const int first = row(0);
    if constexpr (kADepth) {
      const uint32_t at =
          words + static_cast<uint32_t>((part / 2 * kRows + first) * kRowBytes +
                                        (place / 2 ^ first % 8) * 16 + place % 2 * 8);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        x[i] = load_shared_float2((at + static_cast<uint32_t>(i % 2 * 8 * kRowBytes)) ^
                                  static_cast<uint32_t>(part % 2 * 64 + i / 2 * 32));
    } else {
      float2 of_rows[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int depth = 16 * part + 2 * place + i % 2 + i / 2 * 8;
        of_rows[i] = load_shared_float2(
            words +
            static_cast<uint32_t>((first / kLineWords * kDepth + depth) * kRowBytes +
                                  (first % kLineWords / 4 ^ depth % 8) * 16 + first % 4 * 4));
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        x[2 * i] = make_float2(of_rows[2 * i].x, of_rows[2 * i + 1].x);
        x[2 * i + 1] = make_float2(of_rows[2 * i].y, of_rows[2 * i + 1].y);
      }
    }
  }
};

// One step of the depth: the small products first, then those of the largest pieces. `x` is A's
// first fragment and becomes that of the next step, which `load_next` loads.
template <class Tile, typename LoadNext>
__device__ __forceinline__ void multiply(const Tile& tile,
                                         int slot,
                                         const OwnRows<Tile::kADepth>& own,
                                         float2 (&x)[4],
                                         float (&sum)[Tile::kColumns / 2],
                                         const LoadNext& load_next) {
  constexpr int kParts = kDepth / 16;
  const auto b = [&](int piece, int part) {
    const uint32_t at = tile.piece(slot, piece);
    return Tile::kBDepth ? by_columns(at) + column_step<Tile::kColumns>(part)
                         : by_rows(at, kDepth) + row_step(part);
  };
  const auto product = [&](const uint32_t(&a)[4], uint64_t of_b, bool accumulates) {
    Product<Tile::kColumns>::template registers<Tile::kBDepth ? 0 : 1>(sum, a, of_b, accumulates);
  };
  uint32_t largest[kParts][4], rest[2][kPieces - 1][4];
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    uint32_t(&smaller)[kPieces - 1][4] = rest[part % 2];
    if (part >= 2) {  // wait for the products that read these registers
      product_wait<1>();
#pragma unroll
      for (int p = 0; p < kPieces - 1; ++p) pin(smaller[p]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      uint32_t pieces[kPieces];
      split(x[i].x, x[i].y, pieces);
      largest[part][i] = pieces[0];
#pragma unroll
      for (int p = 1; p < kPieces; ++p) smaller[p - 1][i] = pieces[p];
    }
    if (part + 1 < kParts)
      own.load(tile.a(slot), part + 1, x);
    else
      load_next(x);
    product_fence();
    product(smaller[1], b(0, part), part > 0);
    product(largest[part], b(2, part), true);
    product(smaller[0], b(1, part), true);
    product(smaller[0], b(0, part), true);
    product(largest[part], b(1, part), true);
    product_commit();
  }
#pragma unroll
  for (int part = 0; part < kParts; ++part) product(largest[part], b(0, part), true);
  product_commit();
  product_wait<0>();
  pin(sum);
#pragma unroll
  for (int part = 0; part < kParts; ++part) pin(largest[part]);
}

__device__ __forceinline__ float4 plus(const float4& x, const float4& y) {
  return make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
}

// Whether a sum of the tile is infinite or NaN, because then an operand may have no pieces.
template <class Tile>
__device__ __forceinline__ bool lacks_pieces(const Arguments& p, const Tile& tile) {
  if (p.parts == 1) return load_shared_int(tile.flag()) != 0;
  bool any = false;
#pragma unroll 1
  for (int part = 0; part < p.parts; ++part)
    any = any || __float_as_int(load_cluster_float4(tile.flag(), part).x) != 0;
  return any;
}

// Four results of a row, computed in fp32.
__device__ __forceinline__ float4 plain_product(const Arguments& p, int row, int column) {
  const auto offset = [](const SplitOperand& x, int64_t along, int64_t depth) {
    return x.by_depth ? along * x.step + depth : depth * x.step + along;
  };
  float4 sum = {};
#pragma unroll 1
  for (int k = 0; k < p.k; ++k) {
    const float a = p.plain_a.data[offset(p.plain_a, row, k)];
    const auto b = [&](int j) { return p.plain_b.data[offset(p.plain_b, column + j, k)]; };
    sum = make_float4(fmaf(a, b(0), sum.x), fmaf(a, b(1), sum.y), fmaf(a, b(2), sum.z),
                      fmaf(a, b(3), sum.w));
  }
  return sum;
}

// Stores the result through shared memory: each block of a cluster sums and writes its share of the
// rows.
template <class Tile>
__device__ __forceinline__ void store(const Arguments& p,
                                      const DepthTile& work,
                                      const Tile& tile,
                                      const OwnRows<Tile::kADepth>& own,
                                      const float (&total)[Tile::kColumns / 2]) {
  constexpr int kLanes = Tile::kColumns / 4, kLines = kMultiplying / kLanes;
  constexpr int kLoads = kRows / kLines;
  float zero = 0;
#pragma unroll
  for (int j = 0; j < Tile::kColumns / 2; ++j) zero += total[j];
  zero *= 0;                    // NaN after anything infinite
  named_sync(2, kMultiplying);  // all threads have read the operands in this memory
  if (zero != 0) store_shared_int(tile.flag(), 1);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint32_t line =
        tile.base + 4 * static_cast<uint32_t>(own.row(half) * Tile::kResultStep + 2 * own.place);
#pragma unroll
    for (int j = 0; j < Tile::kColumns / 8; ++j)
      store_shared_pair(line + 32 * j, __float_as_uint(total[4 * j + 2 * half]),
                        __float_as_uint(total[4 * j + 2 * half + 1]));
  }
  if (p.parts > 1)
    cluster_sync();
  else
    named_sync(2, kMultiplying);
  const int thread = static_cast<int>(threadIdx.x);
  const int column = thread % kLanes * 4, line = work.part * (kRows / p.parts) + thread / kLanes;
  const auto write = [&](int row, const float4& sum) {
    float4* to = reinterpret_cast<float4*>(p.c + row * p.c_step + work.column + column);
    *to = p.accumulate != 0 ? plus(sum, *to) : sum;
  };
  if (__builtin_expect(lacks_pieces(p, tile), 0)) {
    if (p.parts > 1) cluster_sync();
#pragma unroll 1
    for (int i = 0; i < kRows / p.parts; i += kLines)
      if (work.row + line + i < p.m && work.column + column < p.n)
        write(work.row + line + i, plain_product(p, work.row + line + i, work.column + column));
    return;
  }
  float4 x[kLoads];  // all parts of a row, then those of the next row
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const uint32_t from =
        tile.base +
        4 * static_cast<uint32_t>((line + i / p.parts * kLines) * Tile::kResultStep + column);
    x[i] = p.parts > 1 ? load_cluster_float4(from, i % p.parts) : load_shared_float4(from);
  }
  float4 sum = {};
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    sum = i % p.parts == 0 ? x[i] : plus(sum, x[i]);
    const int row = work.row + line + i / p.parts * kLines;
    if ((i + 1) % p.parts != 0 || row >= p.m || work.column + column >= p.n) continue;
    write(row, sum);
  }
  if (p.parts > 1) cluster_sync();  // other blocks may still read this memory
}

template <class Tile>
__device__ __forceinline__ void consume(const Arguments& p, const Tile& tile) {
  const DepthTile work(p, Tile::kColumns);
  const OwnRows<Tile::kADepth> own;
  float total[Tile::kColumns / 2] = {};
  float2 x[4];
  barrier_wait(tile.a_full(0), 0);
  own.load(tile.a(0), 0, x);
  Ring<kSlots> ring;
  for (int i = 0; i < work.count; ++i) {
    const int slot = ring.slot;
    barrier_wait(tile.pieces_full(slot), ring.parity);
    ring.advance();
    float sum[Tile::kColumns / 2];
    multiply(tile, slot, own, x, sum, [&](float2(&next)[4]) {
      if (i + 1 == work.count) return;
      barrier_wait(tile.a_full(ring.slot), ring.parity);
      own.load(tile.a(ring.slot), 0, next);
    });
    barrier_arrive(tile.empty(slot));
#pragma unroll
    for (int j = 0; j < Tile::kColumns / 2; ++j) total[j] += sum[j];
  }
  store(p, work, tile, own, total);
}

template <class Tile>
__global__ void __launch_bounds__(kThreads, 1)
    split_bf16_gemm_kernel(const __grid_constant__ Arguments p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) uint8_t shared[];
  const Tile tile{shared_address(shared)};
  if (threadIdx.x == 0) {
    prefetch_map(&p.a);
    prefetch_map(&p.b);
    for (int slot = 0; slot < kSlots; ++slot) {
      barrier_init(tile.a_full(slot), 1);
      barrier_init(tile.b_full(slot), 1);
      barrier_init(tile.pieces_full(slot), 1);
      barrier_init(tile.empty(slot), kMultiplying);
    }
    barrier_init_fence();
    store_shared_int(tile.flag(), 0);
  }
  __syncthreads();
  grid_wait();
  if (threadIdx.x >= kMultiplying) {
    give_registers<72>();
    produce(p, tile);
    if (p.parts > 1) {
      cluster_sync();
      cluster_sync();
    }
  } else {
    take_registers<216>();
    consume(p, tile);
  }
#else
  __trap();
#endif
}

// A launch whose configuration points to its own attributes. It starts early: its blocks wait for
// the grids before them.
struct Launch {
  cudaLaunchAttribute attributes[2]{};
  cudaLaunchConfig_t config{};

  Launch(int tiles, int parts, int shared_bytes, cudaStream_t stream) {
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = 1;
    attributes[1].id = cudaLaunchAttributeClusterDimension;
    attributes[1].val.clusterDim = {static_cast<unsigned>(parts), 1, 1};
    config.gridDim = dim3(static_cast<unsigned>(tiles * parts));
    config.blockDim = dim3(kThreads);
    config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = parts > 1 ? 2 : 1;
  }
  Launch(const Launch&) = delete;
};

template <class Tile>
cudaError_t allow_shared_memory() {
  return cudaFuncSetAttribute(split_bf16_gemm_kernel<Tile>,
                              cudaFuncAttributeMaxDynamicSharedMemorySize, Tile::kSharedBytes);
}

// The number of clusters that run at once: a cluster runs within one group of multiprocessors
// (GPC), and groups differ in size.
int clusters_at_once(int parts) {
  using Any = Tile<128, true, true>;
  if (parts == 1) return multiprocessors();
  int clusters = 0;
  const Launch launch(1, parts, Any::kSharedBytes, nullptr);
  if (allow_shared_memory<Any>() != cudaSuccess ||
      cudaOccupancyMaxActiveClusters(&clusters, split_bf16_gemm_kernel<Any>, &launch.config) !=
          cudaSuccess)
    return 0;
  return clusters;
}

struct TileSplit {
  int columns = 128;  // columns of a tile
  int parts = 1;      // parts of the depth
};

// The split with the shortest predicted time. In units of a measured step of 128 columns: 0.6 for a
// step of 64 columns, 1.3 for the beginning and end of a block, and 0.3 more if a cluster sums.
TileSplit best_split(int64_t m, int64_t n, int64_t steps) {
  static const auto at_once = [] {
    struct {
      int of[kMostParts + 1];
    } clusters{};
    for (int parts = 1; parts <= kMostParts; parts *= 2)
      clusters.of[parts] = clusters_at_once(parts);
    return clusters;
  }();
  TileSplit best;
  double least = 0;
  for (int columns : {128, 64}) {
    const int64_t tiles = (m + kRows - 1) / kRows * ((n + columns - 1) / columns);
    for (int parts = 1; parts <= kMostParts && 2 * parts <= std::max<int64_t>(steps, 2);
         parts *= 2) {
      if (at_once.of[parts] == 0) continue;
      const int64_t rounds = (tiles + at_once.of[parts] - 1) / at_once.of[parts];
      const double block =
          static_cast<double>((steps + parts - 1) / parts) * (columns == 64 ? 0.6 : 1) + 1.3 +
          (parts > 1 ? 0.3 : 0);
      const double cost = static_cast<double>(rounds) * block;
      if (least > 0 && cost >= least) continue;
      best = {columns, parts};
      least = cost;
    }
  }
  return best;
}

bool encode(CUtensorMap* map, const SplitOperand& x, int64_t extent, int64_t depth, int tile) {
  const auto encoder = tensor_map_encoder();
  if (encoder == nullptr) return false;
  const cuuint64_t extents[2] = {static_cast<cuuint64_t>(x.by_depth ? depth : extent),
                                 static_cast<cuuint64_t>(x.by_depth ? extent : depth)};
  const cuuint64_t step_bytes[1] = {static_cast<cuuint64_t>(x.step) * 4};
  const cuuint32_t box[2] = {kLineWords, static_cast<cuuint32_t>(x.by_depth ? tile : kDepth)};
  const cuuint32_t every[2] = {1, 1};
  return encoder(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, const_cast<float*>(x.data), extents,
                 step_bytes, box, every, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

template <class Tile>
cudaError_t launch(const Arguments& p, cudaStream_t stream) {
  static const cudaError_t status = allow_shared_memory<Tile>();  // called once, because it is slow
  if (status != cudaSuccess) return status;
  const Launch launch(p.row_tiles * p.column_tiles, p.parts, Tile::kSharedBytes, stream);
  return cudaLaunchKernelEx(&launch.config, split_bf16_gemm_kernel<Tile>, p);
}

template <int kColumns>
cudaError_t launch_for(const SplitBf16Gemm& call, const Arguments& p, cudaStream_t stream) {
  if (call.a.by_depth)
    return call.b.by_depth ? launch<Tile<kColumns, true, true>>(p, stream)
                           : launch<Tile<kColumns, true, false>>(p, stream);
  return call.b.by_depth ? launch<Tile<kColumns, false, true>>(p, stream)
                         : launch<Tile<kColumns, false, false>>(p, stream);
}

}  // namespace

bool takes_split_bf16_gemm(const SplitBf16Gemm& call, int64_t alignment_bytes) {
  constexpr int64_t kMostExtent = int64_t{1} << 30, kMostStep = int64_t{1} << 36;
  const auto lies_in_vectors = [](int64_t step) {
    return step > 0 && step % 4 == 0 && step < kMostStep;
  };
  return has_warpgroups() && alignment_bytes % 16 == 0 && call.m > 0 && call.n > 0 && call.k > 0 &&
         call.m < kMostExtent && call.n < kMostExtent && call.k < kMostExtent && call.n % 4 == 0 &&
         lies_in_vectors(call.a.step) && lies_in_vectors(call.b.step) &&
         lies_in_vectors(call.c_step);
}

cudaError_t launch_split_bf16_gemm(const SplitBf16Gemm& call, cudaStream_t stream) {
  if (!takes_split_bf16_gemm(call, static_cast<int64_t>(reinterpret_cast<uintptr_t>(call.c) % 256)))
    return cudaErrorInvalidValue;
  Arguments p{};
  p.plain_a = call.a;
  p.plain_b = call.b;
  p.c = call.c;
  p.c_step = call.c_step;
  p.m = static_cast<int>(call.m);
  p.n = static_cast<int>(call.n);
  p.k = static_cast<int>(call.k);
  p.steps = static_cast<int>((call.k + kDepth - 1) / kDepth);
  const TileSplit split = best_split(call.m, call.n, p.steps);
  p.row_tiles = (p.m + kRows - 1) / kRows;
  p.column_tiles = (p.n + split.columns - 1) / split.columns;
  p.parts = split.parts;
  p.accumulate = call.accumulate ? 1 : 0;
  if (!encode(&p.a, call.a, call.m, call.k, kRows) ||
      !encode(&p.b, call.b, call.n, call.k, split.columns))
    return cudaErrorInvalidValue;
  return split.columns == 128 ? launch_for<128>(call, p, stream) : launch_for<64>(call, p, stream);
}

}  // namespace ridge::backends::cuda
