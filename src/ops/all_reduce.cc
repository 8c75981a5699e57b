// SPDX-License-Identifier: Apache-2.0
// all_reduce: the sum, or the average, of each tensor over the ranks of a group, in place on every
// rank. It is a collective: each rank of the group runs the same node at the same place of its
// sequence of collectives. Where the ranks share a model, they all read the sum, whose gradient is
// that of each summand. all_reduce_gradient is its conjugate: a view of a tensor that all ranks
// have. Each rank makes a part of its gradient, and the parts are added up (f and g of Shoeybi et
// al. 2019, Megatron-LM).
#include <vector>

#include "ops/collective.h"

namespace ridge::ops {
namespace {

struct AllReduceOp {
  static Op declaration() {
    return {.name = "all_reduce",
            .category = OpCategory::kCollective,
            .operands = {1, kAnyNumber},
            .attrs = {{"group", std::string()}, {"ranks", int64_t{1}}, {"average", false, false}},
            .formula =
                "(ranks - 1) / ranks FLOPs an element; sends 2 (ranks - 1) / ranks of its "
                "bytes"};
  }

  static std::vector<Type> infer(const Call& call) {
    for (const Type& input : call.inputs) expect_float("all_reduce", input, "tensors");
    ranks_of("all_reduce", call);
    return {call.inputs.begin(), call.inputs.end()};
  }

  static std::vector<Alias> aliases(const Call& call) {
    std::vector<Alias> all;
    for (int i = 0; i < static_cast<int>(call.inputs.size()); ++i) all.push_back({i, i});
    return all;
  }

  // A ring: each rank adds up one part, then every part goes around.
  static Work work(const Call& call) { return ring_additions(call); }
  static int64_t sent_bytes(const Call& call) {
    const int64_t ranks = call.attrs.integer("ranks");
    return 2 * ceil_div(bytes_of(call.inputs), ranks) * (ranks - 1);
  }

  static std::vector<ValueId> gradient(const GradientCall& call) {
    const Attrs& attrs = call.node.attrs;
    const double share =
        attrs.flag("average") ? 1 / static_cast<double>(attrs.integer("ranks")) : 1;
    std::vector<ValueId> gradients;
    for (const ValueId each : call.output_gradients)
      gradients.push_back(each == kNoValue || share == 1 ? each : scale(call.builder, each, share));
    return gradients;
  }

  // As if every rank had the same tensors.
  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    const double factor = same_on_ranks_factor(call);
    for (size_t o = 0; o < outputs.size(); ++o)
      for (size_t i = 0; i < outputs[o].data.size(); ++i)
        outputs[o].data[i] = factor * inputs[o]->data[i];
  }

  static std::vector<Case> cases() {
    return {{"two_on_one_rank",
             {{f32({7, 19}), {}, false}, {f32({131}), {}, false}},
             {{"group", "data"}, {"ranks", int64_t{1}}}}};
  }
};

struct AllReduceGradientOp {
  static Op declaration() {
    return {.name = "all_reduce_gradient",
            .category = OpCategory::kView,
            .kind = OpKind::kView,
            .attrs = {{"group", std::string()}, {"ranks", int64_t{1}}}};
  }

  static std::vector<Type> infer(const Call& call) {
    expect_float("all_reduce_gradient", call.inputs[0], "the tensor");
    ranks_of("all_reduce_gradient", call);
    return {call.inputs[0]};
  }

  static std::optional<Layout> view(const Call&, const Layout& input) { return input; }

  static std::vector<ValueId> gradient(const GradientCall& call) {
    return {call.builder.call("all_reduce", {own_bytes(call.builder, call.output_gradients[0])},
                              same_ranks(call.node))};
  }

  static void reference(const Call&, Inputs64 inputs, Outputs64 outputs) {
    outputs[0].data = inputs[0]->data;
  }

  static std::vector<Case> cases() {
    return {{"matrix", {{f32({7, 19})}}, {{"group", "tensor"}, {"ranks", int64_t{1}}}}};
  }
};

}  // namespace

const Op& all_reduce_gradient_op() { return op_from<AllReduceGradientOp>(); }

const Op& all_reduce_op() { return op_from<AllReduceOp>(); }

}  // namespace ridge::ops
