// SPDX-License-Identifier: Apache-2.0
// Measures the links between ranks: how long each kind of collective takes by the size of its
// tensors, run as graphs run it.
#pragma once

#include "backends/backend.h"
#include "cost/link_curves.h"
#include "measure/calibration.h"
#include "runtime/ranks.h"

namespace ridge::measure {

// From so many bytes of whole tensors to so many, at least; larger ones only where `most_bytes`
// allows, the share of memory that a rank may use.
inline constexpr int64_t kLeastLinkBytes = 2 << 10, kMostLinkBytes = 256 << 20;

// All ranks of the one group "data" call it, each with its backend. Every rank gets the same
// result: a call takes as long as on the rank where the median is greatest.
cost::LinkCurves measure_links(backends::Backend& backend,
                               const runtime::Ranks& ranks,
                               int64_t most_bytes,
                               const CalibrationProgress& progress = {});

}  // namespace ridge::measure
