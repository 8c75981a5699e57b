// SPDX-License-Identifier: Apache-2.0
// Bindings of kv_append, rope_append, cached_attention and the primitives of its expansion.
#include "backends/cuda/cache_operands.h"
#include "backends/cuda/kernels/cache/cached_attention.h"
#include "backends/cuda/kernels/cache/rope_append.h"
#include "backends/cuda/settled_operand.h"
#include "base/error.h"
#include "ops/cached_attention.h"

namespace ridge::backends::cuda {
namespace {

constexpr int64_t kVectorBytes = 16;

// A token sees its window, and never more than a ring holds or its graph's bound allows.
int64_t reach_of(const Call& call) { return ops::cached_attention_shape(call).keys(); }

// Many tokens in bf16 go through the tensor cores.
bool takes_tiles(const Call& call) {
  return call.inputs[0].dtype == DType::kBF16 &&
         call.inputs[0].shape[0] > kCachedAttentionFewTokens;
}

// Vectors of 8 elements of each head.
bool lie_in_vectors(const Operand& heads) {
  constexpr int64_t kElements = kVectorBytes / 2;
  return reinterpret_cast<uintptr_t>(heads.data) % kVectorBytes == 0 &&
         heads.strides[0] % kElements == 0 && heads.strides[1] % kElements == 0;
}

Launch bind_append(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    KvAppend<T> a;
    a.cells = cells_of(call, call.inputs[0].type.shape, 4, "kv_append", context);
    a.keys = cache_of<T>(call.inputs[0]);
    a.values = cache_of<T>(call.inputs[1]);
    a.k = token_heads<const T>(call.inputs[2]);
    a.v = token_heads<const T>(call.inputs[3]);
    return launch_on(context.device, "kv_append", launch_kv_append<T>, a);
  });
}

Launch bind_attention(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    CachedAttention<T> a;
    a.cells = cells_of(call, call.inputs[1].type.shape, 3, "cached_attention", context,
                       most_position(call.attrs()));
    a.heads = call.inputs[0].type.shape[1];
    a.reach = reach_of(call.call());
    a.scale = static_cast<float>(call.attrs().real("scale"));
    a.q = token_heads<const T>(call.inputs[0]);
    a.keys = cache_of<const T>(call.inputs[1]);
    a.values = cache_of<const T>(call.inputs[2]);
    a.o = token_heads<T>(call.outputs[0]);
    if constexpr (sizeof(T) == 2)
      if (takes_tiles(call.call()) && lie_in_vectors(call.inputs[0]) &&
          lie_in_vectors(call.outputs[0]))
        return launch_on(context.device, "cached_attention", launch_flash_attention_cached, a);
    a.workspace = reinterpret_cast<float*>(call.workspace);
    a.tickets =
        context.tickets.take(cached_attention_tickets(a.cells.tokens, a.heads, a.keys.kv_heads));
    return launch_on(context.device, "cached_attention", launch_cached_attention<T>, a);
  });
}

Launch bind_scores(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    CachedScores<T> s;
    s.cells = cells_of(call, call.inputs[1].type.shape, 2, "cached_scores", context);
    s.heads = call.inputs[0].type.shape[1];
    s.columns = call.attrs().integer("columns");
    s.q = token_heads<const T>(call.inputs[0]);
    s.keys = cache_of<const T>(call.inputs[1]);
    s.scores = call.outputs[0].as<T>();
    return launch_on(context.device, "cached_scores", launch_cached_scores<T>, s);
  });
}

Launch bind_mix(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    CachedMix<T> m;
    m.cells = cells_of(call, call.inputs[1].type.shape, 2, "cached_mix", context);
    m.heads = call.inputs[0].type.shape[1];
    m.columns = call.inputs[0].type.shape[2];
    m.p = call.inputs[0].as<const T>();
    m.values = cache_of<const T>(call.inputs[1]);
    m.o = token_heads<T>(call.outputs[0]);
    return launch_on(context.device, "cached_mix", launch_cached_mix<T>, m);
  });
}

Launch bind_mask(const BindCall& call, BindContext& context) {
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
    return launch_on(context.device, "cached_mask", launch_cached_mask<T>, mask);
  });
}

Launch bind_rope_append(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    RopeAppend<T> a;
    a.cells = cells_of(call, call.inputs[0].type.shape, 5, "rope_append", context);
    a.is_settled = is_settled(call, 5) && is_settled(call, 6) && is_settled(call, 7);
    a.heads = call.attrs().integer("heads");
    a.merged = rows<const T>(call.inputs[2]);
    a.cos = call.inputs[3].as<const float>();
    a.sin = call.inputs[4].as<const float>();
    a.interleaved = call.attrs().flag("interleaved");
    if (call.attrs().flag("norms")) {
      a.q_norm = call.inputs[8].as<const float>();
      a.k_norm = call.inputs[9].as<const float>();
    }
    a.eps = static_cast<float>(call.attrs().real("eps"));
    a.norm_offset = static_cast<float>(call.attrs().real("offset"));
    a.keys = cache_of<T>(call.inputs[0]);
    a.values = cache_of<T>(call.inputs[1]);
    a.q = call.outputs[2].as<T>();
    return launch_on(context.device, "rope_append", launch_rope_append<T>, a);
  });
}

bool takes_merged(const Call& call, int input, const Layout& layout) {
  return input == 2 && lies_in_rows(call, input, layout);
}

std::string rope_append_unsupported(const Call& call) {
  int64_t head_size = call.inputs[0].shape[3];
  if (head_size <= kRopeAppendMostHeadSize) return "";
  return fmt::format("expected a head size of at most {}, got {}", kRopeAppendMostHeadSize,
                     head_size);
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

std::string attention_unsupported(const Call& call) {
  int64_t head_size = call.inputs[0].shape[2];
  if (head_size % 8 == 0 && head_size <= kCachedAttentionMostHeadSize) return "";
  return fmt::format("expected a head size that is a multiple of 8 up to {}, got {}",
                     kCachedAttentionMostHeadSize, head_size);
}

}  // namespace

const CudaKernel& kv_append_kernel() {
  static const CudaKernel kernel{
      .op = "kv_append", .bind = bind_append, .takes_input = takes_appended, .rounds = 3};
  return kernel;
}

const CudaKernel& rope_append_kernel() {
  static const CudaKernel kernel{.op = "rope_append",
                                 .bind = bind_rope_append,
                                 .takes_input = takes_merged,
                                 .unsupported = rope_append_unsupported,
                                 .rounds = 4};
  return kernel;
}

const CudaKernel& cached_attention_kernel() {
  static const CudaKernel kernel{.op = "cached_attention",
                                 .bind = bind_attention,
                                 .takes_input = first_lies_in_heads,
                                 .takes_output = output_lies_in_heads,
                                 .vector_bytes = kVectorBytes,
                                 .workspace_bytes = attention_workspace,
                                 .unsupported = attention_unsupported,
                                 .rounds = 6};
  return kernel;
}

const CudaKernel& cached_scores_kernel() {
  static const CudaKernel kernel{
      .op = "cached_scores", .bind = bind_scores, .takes_input = first_lies_in_heads, .rounds = 3};
  return kernel;
}

const CudaKernel& cached_mask_kernel() {
  static const CudaKernel kernel{.op = "cached_mask", .bind = bind_mask};
  return kernel;
}

const CudaKernel& cached_mix_kernel() {
  static const CudaKernel kernel{
      .op = "cached_mix", .bind = bind_mix, .takes_output = output_lies_in_heads, .rounds = 3};
  return kernel;
}

}  // namespace ridge::backends::cuda
