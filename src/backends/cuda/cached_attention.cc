// SPDX-License-Identifier: Apache-2.0
// Selects the CUDA kernel of a cached_attention and builds its arguments.
#include "backends/cuda/kernels/cache/cached_attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/bind/bindings.h"
#include "backends/bind/cache_operands.h"
#include "backends/cuda/early_operand.h"
#include "backends/cuda/given_caches.h"
#include "backends/cuda/kernel_table.h"
#include "backends/row_layout.h"
#include "ops/cached_attention.h"

namespace ridge::backends::cuda {
namespace {

constexpr int64_t kVectorBytes = 16;

// A token attends to its window, and never to more than a ring holds or its graph's bound allows.
int64_t reach_of(const Call& call) { return ops::cached_attention_shape(call).keys(); }

// Many tokens in bf16 are computed in tiles on the tensor cores, except as many tokens as there are
// slots: almost always a decode, in which no tile has two tokens of a sequence.
bool takes_tiles(const Call& call) {
  const int64_t tokens = call.inputs[0].shape[0], slots = call.inputs[5].shape[0];
  return call.inputs[0].dtype == DType::kBF16 && tokens > kCachedAttentionFewTokens &&
         tokens != slots;
}

template <typename C>
cudaError_t launch_many_tokens(const CachedAttention<uint16_t, C>& call, cudaStream_t stream) {
  const cudaError_t status = launch_flash_attention_cached(call, stream);
  return status != cudaSuccess ? status : launch_cached_attention_of_lone_tokens(call, stream);
}

Launch bind_attention(const BindCall& call, BindContext& context) {
  const DType tokens = call.inputs[0].type.dtype, cache = call.inputs[1].type.dtype;
  return by_given_caches(tokens, cache, [&]<typename T, typename C>() -> Launch {
    CachedAttention<T, C> a;
    a.cells = context.faults.watch_cells(
        "cached_attention",
        cells_of(call, call.inputs[1].type.shape, 3, most_position(call.attrs())));
    a.is_ready_early =
        is_ready_but_for_own_rows(call, 1, 3) && is_ready_but_for_own_rows(call, 2, 3);
    a.heads = call.inputs[0].type.shape[1];
    a.reach = reach_of(call.call());
    a.scale = static_cast<float>(call.attrs().real("scale"));
    a.q = token_heads<const T>(call.inputs[0]);
    a.keys = cache_of<const C>(call, 1, 6);
    a.values = cache_of<const C>(call, 2, 7);
    a.o = token_heads<T>(call.outputs[0]);
    if constexpr (sizeof(T) == 2)
      if (takes_tiles(call.call()) && lies_in_vectors(a.q) && lies_in_vectors(a.o))
        return launch_on(context.device, "cached_attention", launch_many_tokens<C>, a);
    a.workspace = reinterpret_cast<float*>(call.workspace);
    a.tickets =
        context.tickets.take(cached_attention_tickets(a.cells.tokens, a.heads, a.keys.kv_heads));
    return launch_on(context.device, "cached_attention", launch_cached_attention<T, C>, a);
  });
}

// A tile of queries reads its keys 64 at a time. The start, the end and each step take longer with
// wider heads, and the tile with the most steps counts. More tiles than run at once follow each
// other.
int tile_rounds(const Call& call) {
  constexpr int64_t kTileKeys = 64;
  constexpr double kAtOnce = 264;  // two on each of 132 multiprocessors
  const Shape& q = call.inputs[0].shape;
  const int64_t tiles = ceil_div(q[0], kCachedAttentionTileTokens) * q[1], head_size = q[2],
                steps = ceil_div(reach_of(call), kTileKeys);
  return static_cast<int>(std::max(1.0, static_cast<double>(tiles) / kAtOnce) *
                          static_cast<double>(12 + head_size / 8 + steps * (2 + head_size / 64)));
}

// Trips to the positions, the block table, the keys, and the parts of other blocks. A block that
// has a part of the keys loads a round of them after the other, each of which takes longer with
// more heads; a block that has all keys prefetches them.
int part_rounds(const Call& call) {
  constexpr int kTrips = 15;
  const ops::CachedAttention shape = ops::cached_attention_shape(call);
  const int64_t tokens = call.inputs[0].shape[0], kv_heads = shape.cache.kv_heads,
                head_size = call.inputs[0].shape[2], group = shape.heads / kv_heads,
                splits = cached_attention_splits(tokens, kv_heads, head_size, shape.keys());
  if (splits == 1) return kTrips;
  const int64_t part = (shape.keys() + splits - 1) / splits,
                at_once = cached_attention_round_keys(head_size),
                loads = (part + at_once - 1) / at_once;
  return kTrips + static_cast<int>(loads * group * 7 / 5);
}

// Heads that share keys are multiplied together, each warp's keys in tiles that are copied ahead.
// The start and the end take longer with wider heads, and the combination of parts with their
// number.
int group_rounds(const Call& call) {
  const ops::CachedAttention shape = ops::cached_attention_shape(call);
  const int64_t head_size = call.inputs[0].shape[2],
                splits = cached_attention_splits(call.inputs[0].shape[0], shape.cache.kv_heads,
                                                 head_size, shape.keys());
  return static_cast<int>(5 + head_size / 16 + splits / 3);
}

bool is_group(const Call& call) {
  return call.inputs[0].dtype == DType::kBF16 &&
         call.inputs[0].shape[1] > ops::cached_attention_shape(call).cache.kv_heads;
}

// Parts are fitted to kernel times of an H100
// (docs/runs/2026-11-25-prediction-inference-h100.md), tiles and groups to those of an H200
// (docs/runs/2026-11-30-attention-of-prompts-h200.md,
// docs/runs/2026-11-30-prediction-inference-h200.md).
int rounds(const Call& call) {
  if (takes_tiles(call)) return tile_rounds(call);
  return is_group(call) ? group_rounds(call) : part_rounds(call);
}

// Over quants, heads of q are read in vectors.
bool takes_heads(const Call& call, int input, const Layout& layout) {
  if (!first_lies_in_heads(call, input, layout)) return false;
  constexpr int64_t kVector = kVectorBytes / 2;
  return !ops::has_scales(call.inputs[1]) ||
         (layout.strides[0] % kVector == 0 && layout.strides[1] % kVector == 0);
}

std::string unsupported(const Call& call) {
  const DType q = call.inputs[0].dtype, cache = call.inputs[1].dtype;
  if (std::string reason = unsupported_cache(q, cache); !reason.empty()) return reason;
  const int64_t head_size = call.inputs[0].shape[2], multiple = ops::has_scales(cache) ? 16 : 8;
  if (head_size % multiple == 0 && head_size <= kCachedAttentionMostHeadSize) return "";
  return fmt::format("expected a head size that is a multiple of {} up to {}, got {}", multiple,
                     kCachedAttentionMostHeadSize, head_size);
}

}  // namespace

Kernel cached_attention_kernel(BindContext& context) {
  Kernel kernel =
      bind::cached_attention(in_context(bind_attention, context), cached_attention_workspace_bytes);
  kernel.vector_bytes = kVectorBytes;
  kernel.takes_input = takes_heads;
  // Tiles, then the single tokens of sequences.
  kernel.launches = [](const Call& call) { return takes_tiles(call) ? 2 : 1; };
  kernel.rounds_of = rounds;
  return kernel.refusing(unsupported);
}

}  // namespace ridge::backends::cuda
