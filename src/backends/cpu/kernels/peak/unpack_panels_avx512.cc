// SPDX-License-Identifier: Apache-2.0
// Unpacks panels with 512-bit vectors: a row of W in each lane.
#include "backends/cpu/kernels/peak/unpack_panels.h"
#include "backends/cpu/kernels/quantized/panel_codes_avx512-inl.h"
#include "base/row_panels.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx2,fma")
// GCC 12 warns about operands that the header leaves undefined on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

namespace ridge::backends::cpu {
namespace {

// Keeps a value without an instruction that uses it.
template <typename Vector>
inline void keep(Vector value) {
  asm volatile("" : : "v"(value));
}

template <typename Panel>
void unpack(const Panel* panels, int64_t count) {
  for (int64_t p = 0; p < count; ++p) {
    const Panel& panel = panels[p];
    const Scales<Panel> scales(panel);
#pragma GCC unroll 2
    for (int s = 0; s < kScaleCount<Panel>; ++s) {
#pragma GCC unroll 8
      for (int group = 0; group < Panel::kScaleColumns / 4; ++group)
        keep(load_quants(panel, s, group));
      keep(scales.scale(s));
      if constexpr (requires { panel.mins; }) keep(scales.min(s));
    }
  }
}

}  // namespace

void unpack_panels_avx512(DType panels, const std::byte* data, int64_t bytes) {
  with_panel(panels, [&](auto type) {
    using Panel = typename decltype(type)::type;
    unpack(reinterpret_cast<const Panel*>(data), bytes / static_cast<int64_t>(sizeof(Panel)));
  });
}

}  // namespace ridge::backends::cpu
#pragma GCC pop_options
