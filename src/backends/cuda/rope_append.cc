// SPDX-License-Identifier: Apache-2.0
// Binding of rope_append.
#include "backends/cuda/kernels/cache/rope_append.h"

#include <fmt/format.h>

#include "backends/bind/cache_operands.h"
#include "backends/cuda/early_operand.h"
#include "backends/cuda/given_caches.h"
#include "backends/cuda/kernel_table.h"

namespace ridge::backends::cuda {
namespace {

Launch bind(const BindCall& call, BindContext& context) {
  const DType tokens = call.inputs[2].type.dtype, cache = call.inputs[0].type.dtype;
  return by_given_caches(tokens, cache, [&]<typename T, typename C>() -> Launch {
    RopeAppend<T, C> a;
    a.cells =
        context.faults.watch_cells("rope_append", cells_of(call, call.inputs[0].type.shape, 5));
    a.is_ready_early =
        is_ready_early(call, 5) && is_ready_early(call, 6) && is_ready_early(call, 7);
    a.heads = call.attrs().integer("heads");
    a.merged = rows<const T>(call.inputs[2]);
    set_rotation(call, a);
    const size_t scales = call.attrs().flag("norms") ? 10 : 8;
    a.keys = cache_of<C>(call, 0, scales);
    a.values = cache_of<C>(call, 1, scales + 1);
    a.q = call.outputs[2].as<T>();
    return launch_on(context.device, "rope_append", launch_rope_append<T, C>, a);
  });
}

bool takes_merged(const Call& call, int input, const Layout& layout) {
  return input == 2 && lies_in_rows(call, input, layout);
}

// To the positions, the block table, the heads and the angles; many tokens queue for the
// multiprocessors.
int rounds(const Call& call) {
  constexpr int64_t kManyTokens = 64;
  return call.inputs[2].shape[0] > kManyTokens ? 10 : 4;
}

std::string unsupported(const Call& call) {
  if (std::string reason = unsupported_cache(call.inputs[2].dtype, call.inputs[0].dtype);
      !reason.empty())
    return reason;
  int64_t head_size = call.inputs[0].shape[3];
  if (head_size <= kRopeAppendMostHeadSize) return "";
  return fmt::format("expected a head size of at most {}, got {}", kRopeAppendMostHeadSize,
                     head_size);
}

}  // namespace

Kernel rope_append_kernel(BindContext& context) {
  return {.op = "rope_append",
          .bind = in_context(bind, context),
          .takes_input = takes_merged,
          .unsupported = unsupported,
          .takes_quant_cache = true,
          .rounds_of = rounds};
}

}  // namespace ridge::backends::cuda
