// SPDX-License-Identifier: Apache-2.0
// reduce_scatter: the ranks of a group add up their tensors, or average them, and each rank keeps
// its part of the sum along an axis. A collective; see all_reduce. Its gradient is the conjugate
// all_gather: every summand has that of the whole sum.
#include <vector>

#include "ops/collective.h"

namespace ridge::ops {
namespace {

struct ReduceScatterOp {
  static Op declaration() {
    return {
        .name = "reduce_scatter",
        .category = OpCategory::kCollective,
        .operands = {1, kAnyNumber},
        .attrs = {{"group", std::string()},
                  {"ranks", int64_t{1}},
                  {"axis", int64_t{0}, false},
                  {"average", false, false}},
        .formula = "(ranks - 1) / ranks FLOPs an element; sends (ranks - 1) / ranks of its bytes"};
  }

  static std::vector<Type> infer(const Call& call) {
    const int64_t ranks = ranks_of("reduce_scatter", call);
    std::vector<Type> parts;
    for (const Type& whole : call.inputs) {
      expect_float("reduce_scatter", whole, "tensors");
      const int axis = expect_axis("reduce_scatter", whole.shape, call.attrs.integer("axis"));
      if (whole.shape[axis] % ranks != 0)
        throw usage_error("[reduce_scatter] {} ranks do not divide axis {} of {}", ranks, axis,
                          whole.str());
      parts.push_back({whole.dtype, whole.shape.with(axis, whole.shape[axis] / ranks)});
    }
    return parts;
  }

  static Work work(const Call& call) { return ring_additions(call); }
  static int64_t sent_bytes(const Call& call) {
    const int64_t ranks = call.attrs.integer("ranks");
    return bytes_of(call.inputs) / ranks * (ranks - 1);
  }

  static std::vector<ValueId> gradient(const GradientCall& call) {
    const Attrs& attrs = call.node.attrs;
    std::vector<ValueId> gradients;
    for (ValueId part : call.output_gradients) {
      if (part != kNoValue && attrs.flag("average"))
        part = scale(call.builder, part, 1 / static_cast<double>(attrs.integer("ranks")));
      gradients.push_back(part == kNoValue
                              ? kNoValue
                              : call.builder.call("all_gather", {part}, along_axis(call.node)));
    }
    return gradients;
  }

  // The first rank's parts, as if every rank had the same tensors.
  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    const int axis = static_cast<int>(call.attrs.integer("axis"));
    const double factor = same_on_ranks_factor(call);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto [outer, inner] = around(call.inputs[i].shape, axis);
      const int64_t whole = call.inputs[i].shape[axis] * inner;
      const int64_t part = whole / call.attrs.integer("ranks");
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t k = 0; k < part; ++k)
          outputs[i].data[static_cast<size_t>(o * part + k)] =
              factor * inputs[i]->data[static_cast<size_t>(o * whole + k)];
    }
  }

  static std::vector<Case> cases() { return axis_cases(); }
};

}  // namespace

const Op& reduce_scatter_op() { return op_from<ReduceScatterOp>(); }

}  // namespace ridge::ops
