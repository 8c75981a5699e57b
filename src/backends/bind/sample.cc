// SPDX-License-Identifier: Apache-2.0
// Binding of sample.
#include "backends/bind/bindings.h"
#include "backends/row_layout.h"

namespace ridge::backends::bind {
namespace {

Sample sample_call(const BindCall& call) {
  Sample s;
  s.rows = call.inputs[0].type.shape[0];
  s.vocabulary = call.inputs[0].type.shape[1];
  s.recent_tokens = call.inputs[2].type.shape[1];
  s.most_biases = call.inputs[6].type.shape[1];
  s.logits = rows<const float>(call.inputs[0]);
  s.tokens = call.outputs[0].as<int32_t>();
  s.recent = call.outputs[1].as<int32_t>();
  s.next_positions = call.inputs[3].as<const int32_t>();
  s.settings = call.inputs[4].as<const SampleSettings>();
  s.seeds = call.inputs[5].as<const int32_t>();
  s.biased = call.inputs[6].as<const int32_t>();
  s.biases = call.inputs[7].as<const float>();
  if (call.inputs.size() == 9) s.row_slots = call.inputs[8].as<const int32_t>();
  s.workspace = call.workspace;
  return s;
}

}  // namespace

Kernel sample(Launcher<Sample> launcher,
              int64_t (*workspace_bytes)(int64_t rows, int64_t vocabulary)) {
  return {.op = "sample",
          .bind = bind_one(std::move(launcher), sample_call),
          .takes_input = first_lies_in_rows,
          .workspace_bytes = [workspace_bytes](const Call& call) {
            return workspace_bytes(call.inputs[0].shape[0], call.inputs[0].shape[1]);
          }};
}

}  // namespace ridge::backends::bind
