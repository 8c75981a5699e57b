// SPDX-License-Identifier: Apache-2.0
// Bindings of kv_append, cached_attention and the primitives of its expansion.
#include <limits>

#include "backends/cpu/cpu_kernel.h"
#include "backends/cpu/kernels/cache/cached_attention.h"
#include "base/error.h"
#include "ops/cached_attention.h"

namespace ridge::backends::cpu {
namespace {

constexpr int64_t kAnyPosition = std::numeric_limits<int32_t>::max();

void expect_cells(const char* op, const CacheCells& cells, int64_t most_position) {
  CacheFault fault = check_cells(cells, most_position);
  if (fault.kind == CacheFault::kPosition)
    throw runtime_error("[{}] expected positions from -1 to {}, token {} has another", op,
                        most_position, fault.index);
  if (fault.kind == CacheFault::kSlot)
    throw runtime_error("[{}] expected slots from 0 to {}, token {} has another", op,
                        cells.slot_count - 1, fault.index);
  if (fault.kind == CacheFault::kBlock)
    throw runtime_error("[{}] expected blocks from 0 to {}, entry {} of the block table is another",
                        op, cells.blocks - 1, fault.index);
}

// positions, slots and the block table from input `index` on.
CacheCells cells_of(const BindCall& call, const Shape& cache, size_t index) {
  const Shape& table = call.inputs[index + 2].type.shape;
  return {call.inputs[index].type.shape[0],
          call.inputs[index].as<const int32_t>(),
          call.inputs[index + 1].as<const int32_t>(),
          call.inputs[index + 2].as<const int32_t>(),
          table[0],
          table[1],
          cache[0],
          cache[1]};
}

template <typename T>
Cache<T> cache_of(const Operand& operand) {
  return {operand.as<T>(), operand.type.shape[2], operand.type.shape[3]};
}

Launch bind_append(const BindCall& call) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    return [cells = cells_of(call, call.inputs[0].type.shape, 4),
            keys = cache_of<T>(call.inputs[0]), values = cache_of<T>(call.inputs[1]),
            k = token_heads<const T>(call.inputs[2]), v = token_heads<const T>(call.inputs[3])] {
      expect_cells("kv_append", cells, kAnyPosition);
      append(cells, k, keys);
      append(cells, v, values);
    };
  });
}

Launch bind_attention(const BindCall& call) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    ops::CachedAttention s = ops::cached_attention_shape(call.call());
    CachedAttention<T> a;
    a.cells = cells_of(call, call.inputs[1].type.shape, 3);
    a.heads = s.heads;
    a.window = s.window;
    a.columns = s.columns();
    a.scale = static_cast<float>(s.scale);
    a.q = token_heads<const T>(call.inputs[0]);
    a.keys = cache_of<const T>(call.inputs[1]);
    a.values = cache_of<const T>(call.inputs[2]);
    a.o = token_heads<T>(call.outputs[0]);
    a.workspace = reinterpret_cast<float*>(call.workspace);
    return [a, most = std::min(s.context - 1, kAnyPosition)] {
      expect_cells("cached_attention", a.cells, most);
      cached_attention(a);
    };
  });
}

Launch bind_scores(const BindCall& call) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    CachedAttention<T> a;
    a.cells = cells_of(call, call.inputs[1].type.shape, 2);
    a.heads = call.inputs[0].type.shape[1];
    a.columns = call.attrs().integer("columns");
    a.q = token_heads<const T>(call.inputs[0]);
    a.keys = cache_of<const T>(call.inputs[1]);
    a.workspace = reinterpret_cast<float*>(call.workspace);
    return [a, y = call.outputs[0].as<T>()] {
      expect_cells("cached_scores", a.cells, kAnyPosition);
      cached_scores(a, y);
    };
  });
}

Launch bind_mix(const BindCall& call) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    CachedAttention<T> a;
    a.cells = cells_of(call, call.inputs[1].type.shape, 2);
    a.heads = call.inputs[0].type.shape[1];
    a.columns = call.inputs[0].type.shape[2];
    a.values = cache_of<const T>(call.inputs[1]);
    a.o = token_heads<T>(call.outputs[0]);
    a.workspace = reinterpret_cast<float*>(call.workspace);
    return [a, p = call.inputs[0].as<const T>()] {
      expect_cells("cached_mix", a.cells, kAnyPosition);
      cached_mix(a, p);
    };
  });
}

Launch bind_mask(const BindCall& call) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    const Shape& shape = call.inputs[0].type.shape;
    CachedMask<T> mask{shape[0],
                       shape[1],
                       shape[2],
                       call.inputs[1].as<const int32_t>(),
                       call.attrs().integer("window"),
                       call.attrs().integer("ring"),
                       call.inputs[0].as<const T>(),
                       call.outputs[0].as<T>()};
    return [mask] { cached_mask(mask); };
  });
}

bool takes_appended(const Call& call, int input, const Layout& layout) {
  return (input == 2 || input == 3) &&
         lies_in_heads(call.inputs[static_cast<size_t>(input)].shape, layout);
}
int64_t attention_workspace(const Call& call) {
  ops::CachedAttention s = ops::cached_attention_shape(call);
  return cached_attention_workspace_bytes(s.cache.tokens, s.heads, s.cache.kv_heads,
                                          s.cache.head_size, s.keys());
}
int64_t scores_workspace(const Call& call) {
  return cached_scores_workspace_bytes(call.inputs[1].shape[3], call.attrs.integer("columns"));
}
int64_t mix_workspace(const Call& call) {
  return cached_scores_workspace_bytes(call.inputs[1].shape[3], call.inputs[0].shape[2]);
}

}  // namespace

const CpuKernel& kv_append_kernel() {
  static const CpuKernel kernel{
      .op = "kv_append", .bind = bind_append, .takes_input = takes_appended};
  return kernel;
}

const CpuKernel& cached_attention_kernel() {
  static const CpuKernel kernel{.op = "cached_attention",
                                .bind = bind_attention,
                                .takes_input = first_lies_in_heads,
                                .takes_output = output_lies_in_heads,
                                .workspace_bytes = attention_workspace};
  return kernel;
}

const CpuKernel& cached_scores_kernel() {
  static const CpuKernel kernel{.op = "cached_scores",
                                .bind = bind_scores,
                                .takes_input = first_lies_in_heads,
                                .workspace_bytes = scores_workspace};
  return kernel;
}

const CpuKernel& cached_mask_kernel() {
  static const CpuKernel kernel{.op = "cached_mask", .bind = bind_mask};
  return kernel;
}

const CpuKernel& cached_mix_kernel() {
  static const CpuKernel kernel{.op = "cached_mix",
                                .bind = bind_mix,
                                .takes_output = output_lies_in_heads,
                                .workspace_bytes = mix_workspace};
  return kernel;
}

}  // namespace ridge::backends::cpu
