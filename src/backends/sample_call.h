// SPDX-License-Identifier: Apache-2.0
// The kernels' call of sample, filled from a node's operands.
#pragma once

#include "backends/kernels/sample.h"
#include "backends/row_layout.h"

namespace ridge::backends {

inline Sample sample_call(const BindCall& call) {
  Sample s;
  s.slots = call.inputs[0].type.shape[0];
  s.vocabulary = call.inputs[0].type.shape[1];
  s.recent_tokens = call.inputs[2].type.shape[1];
  s.logits = rows<const float>(call.inputs[0]);
  s.tokens = call.outputs[0].as<int32_t>();
  s.recent = call.outputs[1].as<int32_t>();
  s.next_positions = call.inputs[3].as<const int32_t>();
  s.settings = call.inputs[4].as<const SampleSettings>();
  s.seeds = call.inputs[5].as<const int32_t>();
  s.workspace = call.workspace;
  return s;
}

}  // namespace ridge::backends
