// SPDX-License-Identifier: Apache-2.0
// Takes the extents over; whatever else a configuration has is not recorded.
#include "record/architecture.h"

namespace ridge::record {

Architecture architecture(const models::ModelConfig& config) {
  return {config.vocabulary,   config.hidden,  config.layers,     config.heads,   config.kv_heads,
          config.feed_forward, config.context, config.rope_theta, config.norm_eps};
}

}  // namespace ridge::record
