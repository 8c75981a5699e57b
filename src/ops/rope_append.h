// SPDX-License-Identifier: Apache-2.0
// Shared by rope_append and append_attention, which begins with the same step: attributes and
// cases.
#pragma once

#include <string>
#include <vector>

#include "graph/op.h"

namespace ridge::ops {

std::vector<AttrSpec> rope_append_attrs();

struct RopeAppendSample {
  int64_t tokens, slots, per_slot, block, heads, kv_heads, head_size;
  bool norms, interleaved;
};
// `activation` makes an input of the activations' type.
Case rope_append_case(std::string name,
                      const RopeAppendSample& sample,
                      CaseInput (*activation)(const Shape&),
                      const CaseInput& positions);

}  // namespace ridge::ops
