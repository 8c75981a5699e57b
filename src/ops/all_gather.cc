// SPDX-License-Identifier: Apache-2.0
// all_gather: each rank of a group has a part of each tensor and gets the whole tensor, the parts
// of all ranks in their order along an axis. A collective; see all_reduce. Each rank makes a part
// of the gradient of the whole tensor, and gets the sum of these for its own part.
#include <algorithm>
#include <vector>

#include "ops/collective.h"

namespace ridge::ops {
namespace {

struct AllGatherOp {
  static Op declaration() {
    return {.name = "all_gather",
            .category = OpCategory::kCollective,
            .operands = {1, kAnyNumber},
            .attrs = {{"group", std::string()}, {"ranks", int64_t{1}}, {"axis", int64_t{0}, false}},
            .formula = "no FLOPs; sends its bytes ranks - 1 times"};
  }

  static std::vector<Type> infer(const Call& call) {
    const int64_t ranks = ranks_of("all_gather", call);
    std::vector<Type> wholes;
    for (const Type& part : call.inputs) {
      const int axis = expect_axis("all_gather", part.shape, call.attrs.integer("axis"));
      wholes.push_back({part.dtype, part.shape.with(axis, part.shape[axis] * ranks)});
    }
    return wholes;
  }

  // A ring: each rank passes on every part but the one that the next rank gave away first.
  static int64_t sent_bytes(const Call& call) {
    return bytes_of(call.inputs) * (call.attrs.integer("ranks") - 1);
  }

  static std::vector<ValueId> gradient(const GradientCall& call) {
    std::vector<ValueId> gradients;
    for (const ValueId whole : call.output_gradients)
      gradients.push_back(
          whole == kNoValue ? kNoValue
                            : call.builder.call("reduce_scatter", {whole}, along_axis(call.node)));
    return gradients;
  }

  // As if every rank had the same parts.
  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    const int axis = static_cast<int>(call.attrs.integer("axis"));
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto [outer, inner] = around(call.inputs[i].shape, axis);
      const int64_t run = call.inputs[i].shape[axis] * inner;
      auto out = outputs[i].data.begin();
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t rank = 0; rank < call.attrs.integer("ranks"); ++rank)
          out = std::copy_n(inputs[i]->data.begin() + o * run, run, out);
    }
  }

  static std::vector<Case> cases() { return axis_cases(); }
};

}  // namespace

const Op& all_gather_op() { return op_from<AllGatherOp>(); }

}  // namespace ridge::ops
