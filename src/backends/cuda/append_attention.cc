// SPDX-License-Identifier: Apache-2.0
// Binding of append_attention.
#include "backends/cuda/kernels/cache/append_attention.h"

#include <fmt/format.h>

#include "backends/bind/cache_operands.h"
#include "backends/cuda/early_operand.h"
#include "backends/cuda/kernel_table.h"
#include "base/error.h"
#include "ops/cached_attention.h"

namespace ridge::backends::cuda {
namespace {

// The projection, then steps that take about as long as a memory round trip: a block's waits
// between norm, scores and mix, the synchronization of a cluster, and passing its parts from block
// to block.
constexpr int kRounds = 9;

// The token attends to its window, and never to more than a ring holds or its graph's bound allows.
int64_t reach_of(const Call& call) {
  const Shape& cache = call.inputs[0].shape;
  int64_t ring = call.inputs[7].shape[1] * cache[1];
  int64_t columns = std::min(call.attrs.integer("context"), ring),
          window = call.attrs.integer("window");
  return window > 0 ? std::min(window, columns) : columns;
}

Launch bind(const BindCall& call, BindContext& context) {
  auto input = [&](size_t i) -> const Operand& { return call.inputs[i]; };
  AppendAttention a;
  a.cells = context.faults.watch_cells(
      "append_attention", cells_of(call, input(0).type.shape, 5, most_position(call.attrs())));
  a.is_ready_early = true;
  for (size_t i : {0, 1, 5, 6, 7}) a.is_ready_early = a.is_ready_early && is_ready_early(call, i);
  a.heads = call.attrs().integer("heads");
  a.group = static_cast<int>(a.heads / input(0).type.shape[2]);
  a.reach = reach_of(call.call());
  a.scale = static_cast<float>(call.attrs().real("scale"));
  a.merged = input(2).as<const uint16_t>();
  set_rotation(call, a);
  a.keys = cache_of<uint16_t>(input(0));
  a.values = cache_of<uint16_t>(input(1));
  a.o = call.outputs[2].as<uint16_t>();
  return launch_on(context.device, "append_attention", launch_append_attention, a);
}

std::string unsupported(const Call& call) {
  const Shape& cache = call.inputs[0].shape;
  if (call.inputs[0].dtype != DType::kBF16)
    return fmt::format("expected a cache in bf16, got {}", call.inputs[0].str());
  if (call.inputs[2].shape[0] != 1)
    return fmt::format("expected one token, got {}", call.inputs[2].shape[0]);
  int64_t heads = call.attrs.integer("heads"), reach = reach_of(call);
  if (!takes_append_attention(heads, cache[2], cache[3], reach))
    return fmt::format(
        "expected a GPU with clusters, a head size of 64, 128 or 256, few KV heads and a short "
        "context, got {} heads on a cache {} and {} keys",
        heads, cache.str(), reach);
  return "";
}

}  // namespace

Kernel append_attention_kernel(BindContext& context) {
  constexpr int64_t kVectorBytes = 16;
  return {.op = "append_attention",
          .bind = in_context(bind, context),
          .vector_bytes = kVectorBytes,
          .unsupported = unsupported,
          .rounds = kRounds};
}

}  // namespace ridge::backends::cuda
