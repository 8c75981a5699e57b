// SPDX-License-Identifier: Apache-2.0
// The walk along a strip of panels, compiled for the instruction set of the file that includes it.
// Include it after gemv_panels-inl.h, where that set is the target; it has no includes for that
// reason.
#pragma once

namespace ridge::backends::cpu {
namespace {

// Calls add(panel, scales, s, odd, part) for each scale of a strip's panels: s is its index in its
// panel, `odd` whether that is odd, and `part` its index in the row. An even scale and the odd one
// after it are unrolled, so that each may have a separate total. Form defines the type of the panel
// and of its scales (PanelScales), and how many bytes ahead to prefetch (kFetchedAhead).
template <typename Form, typename Add>
inline void for_each_scale(const Strip<typename Form::Panel>& strip, const Add& add) {
  using Panel = typename Form::Panel;
  int64_t part = 0;
  for (int64_t p = 0; p < strip.across; ++p) {
    const Panel& panel = strip.panels[p];
    const typename Form::PanelScales scales(panel);
    for (int s = 0; s < kScaleCount<Panel>; s += 2, part += 2) {
      if (s % 4 == 0) fetch_after<Form::kFetchedAhead>(panel, s, strip.path);
#pragma GCC unroll 2
      for (int odd = 0; odd < 2; ++odd) add(panel, scales, s + odd, odd, part + odd);
    }
  }
}

}  // namespace
}  // namespace ridge::backends::cpu
