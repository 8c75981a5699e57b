// SPDX-License-Identifier: Apache-2.0
// Implements the published models.
#include "cost/activation_models.h"

namespace ridge::cost {

double korthikanti_bytes(const ActivationExtents& e, Recompute recompute) {
  const double token_width = e.sequence * e.batch * e.model;
  switch (recompute) {
    case Recompute::kNone:
      return e.layers * token_width * (34 + 5 * e.heads * e.sequence / e.model);
    case Recompute::kAttention:
      return e.layers * token_width * 34;
    default:
      return e.layers * token_width * 2;
  }
}

NanoGptMemory nano_gpt_memory(const ActivationExtents& e) {
  const double embedding = e.batch * e.sequence * e.model,
               scores = e.batch * e.heads * e.sequence * e.sequence,
               logits = e.batch * e.sequence * e.vocabulary;
  NanoGptMemory memory;
  memory.parameters = e.layers * (12 * e.model * e.model + 2 * e.model) +
                      e.model * (e.vocabulary + e.sequence) + e.model;
  memory.activations = e.layers * (36 * embedding + 6 * scores) + 6 * embedding + 6 * logits;
  memory.steady = 16 * memory.parameters + 16 * e.batch * e.sequence;
  memory.peak = memory.steady + memory.activations + 4 * logits;
  return memory;
}

}  // namespace ridge::cost
