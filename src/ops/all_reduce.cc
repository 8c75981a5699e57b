// SPDX-License-Identifier: Apache-2.0
// all_reduce: the sum, or the average, of each tensor over the ranks of a group, in place on every
// rank. It is a collective: each rank of the group runs the same node at the same place of its
// sequence of collectives.
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

}  // namespace

const Op& all_reduce_op() { return op_from<AllReduceOp>(); }

}  // namespace ridge::ops
