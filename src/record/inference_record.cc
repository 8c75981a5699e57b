// SPDX-License-Identifier: Apache-2.0
// Derived values of an inference study.
#include "record/inference_record.h"

namespace ridge::record {

double LatencyRecord::tokens_per_s() const {
  return wall_ns > 0 ? static_cast<double>(batch * tokens) * 1e9 / wall_ns : 0;
}

}  // namespace ridge::record
