// SPDX-License-Identifier: Apache-2.0
// The blocks of a cluster split the keys of one KV head, if there are few. They load the keys and
// values that the cache already holds into shared memory before the previous kernel ends. Then each
// block rotates the heads of q, and the partial results are sent to the shared memory of the block
// that combines those elements. CUDA only (clusters, mma.sync).
#include "backends/cuda/kernels/cache/append_attention.h"

#include <utility>

#include "backends/cuda/kernels/cache/kv_cache.cuh"
#include "backends/cuda/kernels/early_start.cuh"
#include "backends/cuda/kernels/gemm/warp_product.cuh"
#include "backends/cuda/kernels/rope/rope_head.cuh"
#include "backends/cuda/kernels/softmax/softmax_online.cuh"

namespace ridge::backends::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kLanes;
constexpr int kHeads = 8;       // heads of q that share keys: columns of an mma
constexpr int kRows = 16;       // keys of an mma, or elements of a head
constexpr int kMostRanks = 16;  // blocks per cluster
constexpr int kVector = 8;      // elements in 16 bytes

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Receives data from the other blocks of a cluster, counted in bytes: a block waits only for the
// data that it needs, not for other blocks.
struct Inbox {
  uint64_t barrier;

  // Called by one thread, before the cluster's barrier.
  __device__ __forceinline__ void open() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier))
                 : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
  }
  // Called by one thread, once, before it waits. Bytes that arrived before count, too. This is not
  // part of open(), because a barrier is needed between the two, and there is one later.
  __device__ __forceinline__ void expect(uint32_t bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)),
        "r"(bytes)
        : "memory");
#endif
  }
  // Writes to the same place in another block, whose inbox counts the bytes.
  __device__ __forceinline__ void send(float2* place, int rank, float2 value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile(
        "{\n.reg .u32 there, inbox;\n"
        "mapa.shared::cluster.u32 there, %0, %2;\nmapa.shared::cluster.u32 inbox, %1, %2;\n"
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [there], {%3, %4}, "
        "[inbox];\n}" ::"r"(shared_address(place)),
        "r"(shared_address(&barrier)), "r"(rank), "f"(value.x), "f"(value.y)
        : "memory");
#endif
  }
  __device__ __forceinline__ void wait() const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    uint32_t is_full = 0;
    while (is_full == 0)
      asm volatile(
          "{\n.reg .pred done;\n"
          "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%1], 0;\n"
          "selp.u32 %0, 1, 0, done;\n}"
          : "=r"(is_full)
          : "r"(shared_address(&barrier))
          : "memory");
#endif
  }
};

__device__ __forceinline__ void arrive_in_cluster() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_for_cluster() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}

__device__ __forceinline__ void copy_vector(uint16_t* to, const uint16_t* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from)
               : "memory");
}
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// Loads four 8 x 8 tiles; `row` is this lane's row of all of them.
template <bool kTransposed>
__device__ __forceinline__ void load_tiles(uint32_t (&a)[4], const uint16_t* row) {
  if constexpr (kTransposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(shared_address(row)));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(shared_address(row)));
}
__device__ __forceinline__ uint32_t pair_at(const uint16_t* p) {
  return *reinterpret_cast<const uint32_t*>(p);
}

// The stride of a row is 16 bytes more than a multiple of 128 bytes: eight rows, 16 bytes each,
// then cover all banks.
template <int kHeadSize>
inline constexpr int kStride = kHeadSize + kVector;
// Keys of a block: 187 and 182 KiB with heads of 128 and 256 elements.
template <int kHeadSize>
constexpr int kMostKeys = kHeadSize == 256 ? 176 : 352;
template <int kHeadSize>
constexpr int kWeightStride = kMostKeys<kHeadSize> + kVector;
template <int kHeadSize>
constexpr int kScoreStride = kMostKeys<kHeadSize> + 4;

template <int kHeadSize>
struct Room {
  __align__(16) uint16_t q[kHeads * kStride<kHeadSize>];              // normed and rotated
  __align__(16) uint16_t weights[kHeads * kWeightStride<kHeadSize>];  // softmax weights of the keys
  float scores[kHeads * kScoreStride<kHeadSize>];
  // Sent by the cluster's blocks: the maximum and the sum of each block, and its weighted values
  // for the elements that this block combines.
  float2 totals[kMostRanks][kHeads];
  float2 mix[kHeadSize * kHeads / 2];
  Inbox inbox;

  static __device__ __forceinline__ uint32_t sent_bytes(int group, int ranks) {
    return static_cast<uint32_t>(sizeof(mix)) +
           static_cast<uint32_t>(ranks * group) * static_cast<uint32_t>(sizeof(float2));
  }
};

// A block's keys: positions [begin, end) among those that the token attends to.
struct RankKeys {
  int begin, end;

  __device__ __forceinline__ RankKeys(int position, int reach, int rank, int ranks) {
    const int first = max(position + 1 - reach, 0);
    const int each = (position - first + ranks) / ranks;
    begin = first + rank * each;
    end = min(begin + each, position + 1);
  }
};

template <int kHeadSize>
struct Tile {
  uint16_t *keys, *values;  // [keys of a block, kStride]
  const uint16_t *cached_keys, *cached_values;
  int64_t row_stride, column;  // in the cache, in elements

  // Loads the part's keys and values, except position `fresh`, which the cache does not hold yet.
  // Values up to a multiple of kRows are set to zero, and so are their weights.
  __device__ __forceinline__ void fetch(const SlotCells& cells, RankKeys part, int fresh) const {
    constexpr int kVectors = kHeadSize / kVector;
    const uint32_t cell = static_cast<uint32_t>(part.begin) % cells.ring;
    const int count = part.end - part.begin, rows = (count + kRows - 1) / kRows * kRows;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < rows * kVectors; i += kThreads) {
      const int key = i / kVectors, at = i % kVectors * kVector;
      const int to = key * kStride<kHeadSize> + at;
      const uint32_t own = cell + static_cast<uint32_t>(key);
      const int64_t from =
          cells.row(own < cells.ring ? own : own - cells.ring) * row_stride + column + at;
      if (key < count && part.begin + key != fresh) {
        copy_vector(keys + to, cached_keys + from);
        copy_vector(values + to, cached_values + from);
      } else if (key >= count) {
        *reinterpret_cast<uint4*>(values + to) = uint4{};
      }
    }
  }
};

// Rotates heads of the merged projection. Heads of q go to `room`. The block that owns the token
// itself also writes the token's key and value to their cells and to the tile.
template <int kHeadSize, int kPairsAtOnce>
__device__ __forceinline__ void rotate_heads(const AppendAttention& p,
                                             Room<kHeadSize>& room,
                                             int64_t kv_head,
                                             int group,
                                             int64_t row,
                                             uint16_t* tile_key,
                                             uint16_t* tile_value) {
  const int64_t kv_heads = p.keys.kv_heads, cell = (row * kv_heads + kv_head) * kHeadSize;
  const int count = group + (row >= 0 ? 2 : 0);
  const HeadShape<kPairsAtOnce> shape{kHeadSize / 2, p.interleaved, kLanes};
  for (int h = static_cast<int>(threadIdx.x) / kLanes; h < count; h += kWarps) {
    const bool is_q = h < group, is_key = h == group;
    const int64_t index = is_q ? kv_head * group + h : p.heads + kv_head + (is_key ? 0 : kv_heads);
    HeadPairs<kPairsAtOnce> head;
    head.load(p.merged + index * kHeadSize, shape);
    if (is_q || is_key) {
      HeadAngles<kPairsAtOnce> angles;
      angles.load(p.cos, p.sin, shape);
      if (p.q_norm != nullptr) head.norm(is_q ? p.q_norm : p.k_norm, p.norm_offset, p.eps, shape);
      head.rotate(angles);
    }
    head.store(is_q ? room.q + h * kStride<kHeadSize> : is_key ? tile_key : tile_value, shape);
    if (!is_q) head.store((is_key ? p.keys.data : p.values.data) + cell, shape);
  }
}

// Computes the scores of the keys in units of log2; each warp takes 16 keys at a time.
template <int kHeadSize>
__device__ __forceinline__ void score_keys(Room<kHeadSize>& room,
                                           const uint16_t* keys,
                                           int count,
                                           int group,
                                           float to_log2) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  for (int first = static_cast<int>(threadIdx.x) / kLanes * kRows; first < count;
       first += kWarps * kRows) {
    const uint16_t* row =
        keys + (first + lane % kRows) * kStride<kHeadSize> + lane / kRows * kVector;
    const uint16_t* q = room.q + lane / 4 * kStride<kHeadSize> + lane % 4 * 2;
    float c[2][4] = {};
#pragma unroll
    for (int e = 0; e < kHeadSize; e += kRows) {
      uint32_t a[4];
      load_tiles<false>(a, row + e);
      warp_product(c[e / kRows % 2], a, pair_at(q + e), pair_at(q + e + kVector));
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = first + lane / 4 + i / 2 * 8, head = lane % 4 * 2 + i % 2;
      if (key < count && head < group)
        room.scores[head * kScoreStride<kHeadSize> + key] = (c[0][i] + c[1][i]) * to_log2;
    }
  }
}

// The maximum of the scores of a warp's head of q, and the sum of their weights.
template <int kHeadSize>
__device__ __forceinline__ float2 weigh_keys(Room<kHeadSize>& room, int head, int count) {
  constexpr int kEach = (kMostKeys<kHeadSize> + kLanes - 1) / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int rows = (count + kRows - 1) / kRows * kRows;
  float score[kEach], top = kMinusInfinity;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (i * kLanes >= count) break;
    const int key = lane + i * kLanes;
    score[i] = key < count ? room.scores[head * kScoreStride<kHeadSize> + key] : kMinusInfinity;
    top = fmaxf(top, score[i]);
  }
  top = reduce_lanes(top, Max{});
  const float from = exponent_base(top);
  float own = 0.0f;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (i * kLanes >= count) break;
    const int key = lane + i * kLanes;
    const float weight = exp2_hardware(score[i] - from);
    own += weight;
    if (key < rows)
      room.weights[head * kWeightStride<kHeadSize> + key] = from_float<uint16_t>(weight);
  }
  return make_float2(top, reduce_lanes(own, Sum{}));
}

// The weighted sum of values for a warp's elements of a head, 16 at a time.
template <int kHeadSize>
struct Mix {
  static constexpr int kCount = (kHeadSize / kRows + kWarps - 1) / kWarps;
  float c[kCount][4] = {};

  static __device__ __forceinline__ int element(int i) {
    return (static_cast<int>(threadIdx.x) / kLanes + i * kWarps) * kRows;
  }

  __device__ __forceinline__ void add(const Room<kHeadSize>& room,
                                      const uint16_t* values,
                                      int count) {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    const uint16_t* weights = room.weights + lane / 4 * kWeightStride<kHeadSize> + lane % 4 * 2;
    const uint16_t* row =
        values + (lane / 16 * 8 + lane % 8) * kStride<kHeadSize> + lane / 8 % 2 * 8;
#pragma unroll 2
    for (int key = 0; key < count; key += kRows) {
      const uint32_t b0 = pair_at(weights + key), b1 = pair_at(weights + key + kVector);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if (element(i) >= kHeadSize) continue;
        uint32_t a[4];
        load_tiles<true>(a, row + key * kStride<kHeadSize> + element(i));
        warp_product(c[i], a, b0, b1);
      }
    }
  }

  // Sends the sums to the blocks that combine these elements, a slice of each head per block.
  template <int kRanks>
  __device__ __forceinline__ void send_out(Room<kHeadSize>& room, int rank) const {
    constexpr int kSlice = kHeadSize / kRanks;
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (element(i) >= kHeadSize) continue;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int e = element(i) + lane / 4 + half * 8;
        room.inbox.send(&room.mix[(rank * kSlice + e % kSlice) * (kHeads / 2) + lane % 4],
                        e / kSlice, make_float2(c[i][2 * half], c[i][2 * half + 1]));
      }
    }
  }
};

// Combines this block's elements of each head from the data that all blocks sent.
template <int kHeadSize, int kRanks>
__device__ __forceinline__ void put_together(const Room<kHeadSize>& room,
                                             uint16_t* o,
                                             int group,
                                             int rank) {
  constexpr int kSlice = kHeadSize / kRanks;
  const auto* mixes = reinterpret_cast<const float*>(room.mix);
  for (int i = static_cast<int>(threadIdx.x); i < kSlice * kHeads; i += kThreads) {
    const int head = i % kHeads, e = i / kHeads;
    if (head >= group) continue;
    float top = kMinusInfinity, sum = 0.0f, mix = 0.0f;
#pragma unroll
    for (int r = 0; r < kRanks; ++r) top = fmaxf(top, room.totals[r][head].x);
#pragma unroll
    for (int r = 0; r < kRanks; ++r) {
      const float2 total = room.totals[r][head];
      const float share = exp2_hardware(total.x - top);
      sum = fmaf(share, total.y, sum);
      mix = fmaf(share, mixes[(r * kSlice + e) * kHeads + head], mix);
    }
    o[head * kHeadSize + rank * kSlice + e] = from_float<uint16_t>(__fdividef(mix, sum));
  }
}

// Mapping: one cluster per KV head; each of its blocks takes a range of keys. Bound: latency.
template <int kHeadSize, int kPairsAtOnce, int kRanks>
__global__ void __launch_bounds__(kThreads)
    append_attention_kernel(const __grid_constant__ AppendAttention p, int most_keys) {
  extern __shared__ uint4 shared[];
  __shared__ Room<kHeadSize> room;
  constexpr int kSlice = kHeadSize / kRanks;
  const int group = p.group, rank = static_cast<int>(blockIdx.x) % kRanks;
  const int64_t kv_head = blockIdx.x / kRanks;
  if (threadIdx.x == 0) room.inbox.open();
  gather_lanes();
  arrive_in_cluster();
  if (!p.is_ready_early) wait_for_grids();
  uint16_t* o = p.o + kv_head * group * kHeadSize;
  const int32_t position = live_position(p.cells, 0);
  if (position < 0) {
    let_next_start();
    wait_for_grids();
    note_bad_cells(p.cells);
    for (int i = static_cast<int>(threadIdx.x); i < group * kSlice; i += kThreads)
      o[i / kSlice * kHeadSize + rank * kSlice + i % kSlice] = 0;
    wait_for_cluster();
    return;
  }
  const SlotCells cells(p.cells, p.cells.slot_count == 1 ? 0 : p.cells.slots[0]);  // saves one trip
  const RankKeys part(position, static_cast<int>(p.reach), rank, kRanks);
  const int count = max(part.end - part.begin, 0);
  Tile<kHeadSize> tile;
  tile.keys = reinterpret_cast<uint16_t*>(shared);
  tile.values = tile.keys + most_keys * kStride<kHeadSize>;
  tile.cached_keys = p.keys.data;
  tile.cached_values = p.values.data;
  tile.row_stride = p.keys.kv_heads * kHeadSize;
  tile.column = kv_head * kHeadSize;
  if (count > 0) tile.fetch(cells, part, position);
  gather_lanes();
  wait_for_grids();
  const bool has_token = count > 0 && part.end == position + 1;
  const int fresh = (count - 1) * kStride<kHeadSize>;
  rotate_heads<kHeadSize, kPairsAtOnce>(
      p, room, kv_head, group,
      has_token ? cells.row(static_cast<uint32_t>(position) % cells.ring) : -1, tile.keys + fresh,
      tile.values + fresh);
  // Not earlier: the next kernel's loads would delay the loads of these heads.
  let_next_start();
  const int warp = static_cast<int>(threadIdx.x) / kLanes;
  float2 total = make_float2(kMinusInfinity, 0.0f);
  Mix<kHeadSize> mix;
  wait_for_copies();
  __syncthreads();
  score_keys(room, tile.keys, count, group, p.scale * kLog2OfE);
  __syncthreads();
  if (warp < group) total = weigh_keys(room, warp, count);
  __syncthreads();
  mix.add(room, tile.values, count);
  wait_for_cluster();  // all blocks have started: their shared memory may be written
  mix.template send_out<kRanks>(room, rank);
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  if (warp < group && lane < kRanks) room.inbox.send(&room.totals[rank][warp], lane, total);
  note_bad_blocks(p.cells);
  if (threadIdx.x == 0) room.inbox.expect(room.sent_bytes(group, kRanks));
  room.inbox.wait();
  put_together<kHeadSize, kRanks>(room, o, group, rank);
}

template <int kHeadSize, int kPairsAtOnce, int kRanks>
cudaError_t launch_form(const AppendAttention& call, cudaStream_t stream) {
  const int64_t each = (call.reach + kRanks - 1) / kRanks;
  const auto most_keys = static_cast<int>((each + kRows - 1) / kRows * kRows);
  const int64_t bytes = 2 * most_keys * kStride<kHeadSize> * static_cast<int64_t>(sizeof(uint16_t));
  const auto kernel = append_attention_kernel<kHeadSize, kPairsAtOnce, kRanks>;
  for (auto [attribute, value] :
       {std::pair{cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)},
        std::pair{cudaFuncAttributeNonPortableClusterSizeAllowed, 1}})
    if (cudaError_t status = cudaFuncSetAttribute(kernel, attribute, value); status != cudaSuccess)
      return status;
  return launch_clusters_early(kernel, dim3(static_cast<unsigned>(call.keys.kv_heads * kRanks)),
                               kRanks, kThreads, bytes, stream, call, most_keys);
}

// Blocks of a cluster: only a few clusters of 16 run at a time.
int ranks_of(int64_t kv_heads) { return kv_heads <= 4 ? kMostRanks : kMostRanks / 2; }

template <int kHeadSize, int kPairsAtOnce>
cudaError_t launch_ranks(const AppendAttention& call, cudaStream_t stream) {
  return ranks_of(call.keys.kv_heads) == kMostRanks
             ? launch_form<kHeadSize, kPairsAtOnce, kMostRanks>(call, stream)
             : launch_form<kHeadSize, kPairsAtOnce, kMostRanks / 2>(call, stream);
}

template <int kHeadSize>
cudaError_t launch_size(const AppendAttention& call, cudaStream_t stream) {
  return call.interleaved ? launch_ranks<kHeadSize, 1>(call, stream)
                          : launch_ranks<kHeadSize, 4>(call, stream);
}

// Keys of a cluster. Those of more than eight KV heads run at the same time if two blocks fit on a
// multiprocessor, which has 228 KiB of shared memory, of which each takes one more.
template <int kHeadSize>
int64_t most_keys(int64_t kv_heads) {
  constexpr int64_t kHalf = (113 << 10) - static_cast<int64_t>(sizeof(Room<kHeadSize>)),
                    kKeyBytes = 2 * kStride<kHeadSize> * static_cast<int64_t>(sizeof(uint16_t));
  const int64_t of_block = kv_heads <= 8 ? kMostKeys<kHeadSize> : kHalf / kKeyBytes / kRows * kRows;
  return of_block * ranks_of(kv_heads);
}
int64_t most_keys(int64_t kv_heads, int64_t head_size) {
  return head_size == 64    ? most_keys<64>(kv_heads)
         : head_size == 128 ? most_keys<128>(kv_heads)
                            : most_keys<256>(kv_heads);
}

}  // namespace

bool takes_append_attention(int64_t heads, int64_t kv_heads, int64_t head_size, int64_t reach) {
  // With more KV heads or keys there is enough work for blocks that do not wait for each other.
  constexpr int64_t kMostKvHeads = 16;
  const bool is_size = head_size == 64 || head_size == 128 || head_size == 256;
  return is_size && heads / kv_heads <= kHeads && kv_heads <= kMostKvHeads &&
         reach <= most_keys(kv_heads, head_size) && has_clusters();
}

cudaError_t launch_append_attention(const AppendAttention& call, cudaStream_t stream) {
  if (call.cells.tokens != 1 || call.reach < 1 || call.group > kHeads ||
      call.group * call.keys.kv_heads != call.heads ||
      call.reach > most_keys(call.keys.kv_heads, call.keys.head_size))
    return cudaErrorInvalidValue;
  switch (call.keys.head_size) {
    case 64:
      return launch_size<64>(call, stream);
    case 128:
      return launch_size<128>(call, stream);
    case 256:
      return launch_size<256>(call, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace ridge::backends::cuda
