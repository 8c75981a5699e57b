// SPDX-License-Identifier: Apache-2.0
// Bindings of the primitives of cached_attention's expansion: cached_scores, cached_mask,
// cached_softmax and cached_mix.
#include <utility>

#include "backends/bind/bindings.h"
#include "backends/bind/cache_operands.h"
#include "backends/row_layout.h"

namespace ridge::backends::bind {
namespace {

constexpr auto scores_call =
    []<typename T, typename C>(const BindCall& call) -> CachedScores<T, C> {
  CachedScores<T, C> s;
  s.cells = cells_of(call, call.inputs[1].type.shape, 2);
  s.heads = call.inputs[0].type.shape[1];
  s.columns = call.attrs().integer("columns");
  s.q = token_heads<const T>(call.inputs[0]);
  s.keys = cache_of<const C>(call, 1, 5);
  s.scores = call.outputs[0].as<T>();
  s.workspace = reinterpret_cast<float*>(call.workspace);
  return s;
};

constexpr auto mix_call = []<typename T, typename C>(const BindCall& call) -> CachedMix<T, C> {
  CachedMix<T, C> m;
  m.cells = cells_of(call, call.inputs[1].type.shape, 2);
  m.heads = call.inputs[0].type.shape[1];
  m.columns = call.inputs[0].type.shape[2];
  m.p = call.inputs[0].as<const T>();
  m.values = cache_of<const C>(call, 1, 5);
  m.o = token_heads<T>(call.outputs[0]);
  m.workspace = reinterpret_cast<float*>(call.workspace);
  return m;
};

constexpr auto mask_call = []<typename T>(const BindCall& call) -> CachedMask<T> {
  const Shape& shape = call.inputs[0].type.shape;
  return {shape[0],
          shape[1],
          shape[2],
          call.inputs[1].as<const int32_t>(),
          call.attrs().integer("window"),
          call.attrs().integer("ring"),
          call.inputs[0].as<const T>(),
          call.outputs[0].as<T>()};
};

constexpr auto softmax_call = []<typename T>(const BindCall& call) -> CachedSoftmax<T> {
  return {mask_call.template operator()<T>(call), static_cast<float>(call.attrs().real("scale"))};
};

std::function<int64_t(const Call&)> workspace(CachedWorkspace bytes,
                                              int64_t (*columns)(const Call&)) {
  if (bytes == nullptr) return nullptr;
  return [=](const Call& call) { return bytes(call.inputs[1].shape[3], columns(call)); };
}

}  // namespace

Kernel cached_scores(CacheLaunchers<CachedScores> launchers, CachedWorkspace workspace_bytes) {
  auto columns = [](const Call& call) { return call.attrs.integer("columns"); };
  return with_cache({.op = "cached_scores",
                     .bind = {},
                     .takes_input = first_lies_in_heads,
                     .workspace_bytes = workspace(workspace_bytes, columns)},
                    {0, 1}, std::move(launchers), scores_call);
}

Kernel cached_mask(TypedLaunchers<CachedMask> launchers) {
  return {.op = "cached_mask", .bind = bind_typed(std::move(launchers), mask_call)};
}

Kernel cached_softmax(TypedLaunchers<CachedSoftmax> launchers) {
  return {.op = "cached_softmax",
          .bind = bind_typed(std::move(launchers), softmax_call),
          .in_place = true};
}

Kernel cached_mix(CacheLaunchers<CachedMix> launchers, CachedWorkspace workspace_bytes) {
  auto columns = [](const Call& call) { return call.inputs[0].shape[2]; };
  return with_cache({.op = "cached_mix",
                     .bind = {},
                     .takes_output = output_lies_in_heads,
                     .workspace_bytes = workspace(workspace_bytes, columns)},
                    {0, 1}, std::move(launchers), mix_call);
}

}  // namespace ridge::backends::bind
