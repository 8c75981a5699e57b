// SPDX-License-Identifier: Apache-2.0
// Builds the arguments of the CPU kernel of cached_attention, and checks the cells of a cache.
#include "backends/cpu/kernels/cache/cached_attention.h"

#include "backends/bind/bindings.h"
#include "backends/bind/cache_operands.h"
#include "backends/cpu/kernel_table.h"
#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/on_cpu.h"
#include "backends/row_layout.h"
#include "ops/cached_attention.h"

namespace ridge::backends::cpu {
namespace {

constexpr auto attention_call =
    []<typename T, typename C>(const BindCall& call) -> CachedAttention<T, C> {
  ops::CachedAttention s = ops::cached_attention_shape(call.call());
  CachedAttention<T, C> a;
  a.cells = cells_of(call, call.inputs[1].type.shape, 3, most_position(call.attrs()));
  a.heads = s.heads;
  a.window = s.window;
  a.columns = s.columns();
  a.scale = static_cast<float>(s.scale);
  a.q = token_heads<const T>(call.inputs[0]);
  a.keys = cache_of<const C>(call, 1, 6);
  a.values = cache_of<const C>(call, 2, 7);
  a.o = token_heads<T>(call.outputs[0]);
  a.workspace = reinterpret_cast<float*>(call.workspace);
  a.in_chunks = !call.attrs().flag("batch_invariant");
  a.in_int16 = call.attrs().text("activations") == "i16";
  return a;
};

// A token's few keys are on one thread. A team, which graphs of decoding have, shares less work
// than other kernels do.
std::optional<int64_t> shared_bytes(const Call& call) {
  const ops::CachedAttention s = ops::cached_attention_shape(call);
  if (s.cache.tokens * parts_of_keys(s.keys()) == 1) return 0;
  return kParallelBytes / kSharedKeyBytes *
         storage_bytes(call.inputs[1].dtype,
                       2 * s.cache.tokens * s.keys() * s.cache.kv_heads * s.cache.head_size);
}

}  // namespace

void expect_cells(const char* op, const CacheCells& cells) {
  CacheFault fault = check_cells(cells);
  if (fault.kind == CacheFault::kPosition)
    throw runtime_error("[{}] expected positions from -1 to {}, token {} has another", op,
                        cells.most_position, fault.index);
  if (fault.kind == CacheFault::kSlot)
    throw runtime_error("[{}] expected slots from 0 to {}, token {} has another", op,
                        cells.slot_count - 1, fault.index);
  if (fault.kind == CacheFault::kBlock)
    throw runtime_error("[{}] expected blocks from 0 to {}, entry {} of the block table is another",
                        op, cells.blocks - 1, fault.index);
}

Kernel cached_attention_kernel() {
  return with_cache(bind::cached_attention({}, cached_attention_workspace_bytes), {0, 1},
                    on_cells<CachedAttention>(RIDGE_KERNELS(cached_attention)), attention_call)
      .sharing(shared_bytes);
}

}  // namespace ridge::backends::cpu
