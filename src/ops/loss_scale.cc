// SPDX-License-Identifier: Apache-2.0
// loss_scale: dynamic loss scaling between the backward pass and the optimizer, as in Micikevicius
// et al. (2018). Inputs f32[]: the sum of squares of the scaled gradients, the scale, the good
// steps since it changed, the skipped steps so far, and the step (from 1). Outputs f32[]: new
// versions of the second to the fourth, the factor on every gradient (1 / scale, less with clipping
// to `max_norm`; -1: the step is skipped), the number of updates with this one, and the squared
// norm of the gradients without the scale. A sum that is not finite halves the scale, which stays
// at least 1; after `growth_interval` good steps it doubles, up to 2^24.
#include "ops/loss_scale.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/op_from.h"

namespace ridge::ops {
namespace {

constexpr double kNormEpsilon = 1e-6;  // as in clip.cc

Case sample(std::string name, double squares, std::vector<double> others, Attrs attrs) {
  Case made{std::move(name), {}, std::move(attrs)};
  made.inputs.push_back({f32({}), {Fill::kConstant, squares}, false});
  for (double each : others) made.inputs.push_back({f32({}), {Fill::kConstant, each}, false});
  return made;
}

struct LossScaleOp {
  static Op declaration() {
    return {.name = "loss_scale",
            .category = OpCategory::kOptimizer,
            .operands = {5},
            .attrs = {{"growth_interval", int64_t{2000}, false}, {"max_norm", 0.0, false}},
            .formula = "6 FLOPs (9 with clipping)"};
  }

  static std::vector<Type> infer(const Call& call) {
    for (const Type& input : call.inputs) expect_type("loss_scale", input, f32({}), "all inputs");
    if (call.attrs.integer("growth_interval") < 1)
      throw usage_error("[loss_scale] expected a growth interval >= 1, got {}",
                        call.attrs.integer("growth_interval"));
    if (!(call.attrs.real("max_norm") >= 0))
      throw usage_error("[clip] expected a norm >= 0, got {}", call.attrs.real("max_norm"));
    return std::vector<Type>(6, f32({}));
  }

  static std::vector<Alias> aliases(const Call&) { return {{0, 1}, {1, 2}, {2, 3}}; }

  // Norm 2, factor 1, its square 1, counters 2; clipping 3 more.
  static Work work(const Call& call) {
    return call.attrs.real("max_norm") > 0 ? arithmetic(9, 4) : arithmetic(6, 3);
  }

  static void reference(const Call& call, Inputs64 in, Outputs64 out) {
    const double squares = in[0]->data[0], scale = in[1]->data[0], good = in[2]->data[0] + 1;
    const double max_norm = call.attrs.real("max_norm");
    const bool overflows = !std::isfinite(squares);
    const bool grows = good >= static_cast<double>(call.attrs.integer("growth_interval"));
    const double norm = std::sqrt(squares) / scale;
    const double clip = max_norm > 0 ? std::min(1.0, max_norm / (norm + kNormEpsilon)) : 1;
    out[0].data[0] = overflows ? std::max(scale / 2, kLeastLossScale)
                     : grows   ? std::min(scale * 2, kMostLossScale)
                               : scale;
    out[1].data[0] = overflows || grows ? 0 : good;
    out[2].data[0] = in[3]->data[0] + (overflows ? 1 : 0);
    out[3].data[0] = overflows ? -1 : clip / scale;
    out[4].data[0] = in[4]->data[0] - out[2].data[0];
    out[5].data[0] = norm * norm;
  }

  static std::vector<Case> cases() {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return {sample("good", 3e6, {1024, 3, 2, 7}, {{"growth_interval", int64_t{10}}}),
            sample("clips", 3e6, {1024, 3, 2, 7}, {{"max_norm", 0.5}}),
            sample("grows", 3e6, {1024, 9, 2, 17}, {{"growth_interval", int64_t{10}}}),
            sample("at_most", 3e6, {0x1p24, 9, 2, 17}, {{"growth_interval", int64_t{10}}}),
            sample("overflows", kInfinity, {1024, 3, 2, 7}, {}),
            sample("at_least", kInfinity, {1, 0, 2, 7}, {{"max_norm", 0.5}})};
  }
};

}  // namespace

const Op& loss_scale_op() { return op_from<LossScaleOp>(); }

}  // namespace ridge::ops
