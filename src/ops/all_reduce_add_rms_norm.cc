// SPDX-License-Identifier: Apache-2.0
// all_reduce_add_rms_norm, made by the pass fuse_all_reduce: add_rms_norm of the sum of x over the
// ranks of a group, in one pass over the row. Inputs and outputs are those of add_rms_norm. It is a
// collective; see all_reduce. Inference only: it has no gradient.
#include <vector>

#include "ops/collective.h"
#include "ops/registry.h"

namespace ridge::ops {
namespace {

Call summand_of(const Call& call) {
  return {call.inputs.first(1), call.inputs.first(1), call.attrs};
}

struct AllReduceAddRmsNormOp {
  static Op declaration() {
    return {.name = "all_reduce_add_rms_norm",
            .category = OpCategory::kCollective,
            .kind = OpKind::kFused,
            .operands = {3},
            .attrs = {{"group", std::string()},
                      {"ranks", int64_t{1}},
                      {"eps", 0.0},
                      {"offset", 0.0, false}},
            .formula = "all_reduce's FLOPs and add_rms_norm's; sends as much as all_reduce"};
  }

  static std::vector<Type> infer(const Call& call) {
    ranks_of("all_reduce_add_rms_norm", call);
    return add_rms_norm_op().infer(call);
  }

  static Work work(const Call& call) {
    return all_reduce_op().work(summand_of(call)) + add_rms_norm_op().work(call);
  }
  static int64_t sent_bytes(const Call& call) {
    return all_reduce_op().sent_bytes(summand_of(call));
  }

  // As if every rank had the same x.
  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    Tensor64 sum = *inputs[0];
    for (double& each : sum.data) each *= same_on_ranks_factor(call);
    const std::vector<const Tensor64*> operands{&sum, inputs[1], inputs[2]};
    add_rms_norm_op().reference(call, operands, outputs);
  }

  static std::vector<Case> cases() {
    std::vector<Case> cases;
    for (const Shape& shape : {Shape{1, 8}, Shape{3, 136}, Shape{5, 2048}})
      cases.push_back({shape.str(),
                       {{f32(shape)}, {f32(shape)}, {f32({shape[1]}), {}, false}},
                       {{"group", std::string("tensor")}, {"ranks", int64_t{1}}, {"eps", 1e-3}}});
    return cases;
  }
};

}  // namespace

const Op& all_reduce_add_rms_norm_op() { return op_from<AllReduceAddRmsNormOp>(); }

}  // namespace ridge::ops
