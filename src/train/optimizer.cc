// SPDX-License-Identifier: Apache-2.0
// The schedule and the optimizer's nodes.
#include "train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "base/error.h"
#include "ops/build.h"
#include "passes/tensor_shards.h"
#include "plan/rank_layout.h"

namespace ridge::train {

double learning_rate(const OptimizerOptions& o, int64_t step) {
  if (step < o.warmup_steps)
    return o.learning_rate * static_cast<double>(step) / static_cast<double>(o.warmup_steps);
  const int64_t begin = std::max(o.warmup_steps, o.decay_begin);
  if (o.decay_steps == 0 || step <= begin) return o.learning_rate;
  RIDGE_CHECK(o.decay_steps > begin, "a decay to step {} from {}", o.decay_steps, begin);
  const double done =
      std::min(static_cast<double>(step - begin) / static_cast<double>(o.decay_steps - begin), 1.0);
  const double left = o.decay_shape == DecayShape::kLinear
                          ? 1 - done
                          : 0.5 * (1 + std::cos(std::numbers::pi * done));
  return o.minimum_rate + (o.learning_rate - o.minimum_rate) * left;
}

bool is_decayed(std::string_view parameter, const Type& type) {
  return type.shape.rank() > 1 && parameter.find("embed_tokens") == std::string_view::npos;
}

namespace {

// Over all ranks that share a model, and its stages.
ValueId sum_of_squares(Builder& b,
                       std::span<const ValueId> gradients,
                       const SharedGradients& shared) {
  if (shared.ranks == 1 && shared.stages == 1)
    return b.call("sum_squares", {gradients.begin(), gradients.end()});
  RIDGE_CHECK(shared.copies.size() == gradients.size(), "{} copies", shared.copies.size());
  std::map<int64_t, std::vector<ValueId>> by_copies;
  for (size_t i = 0; i < gradients.size(); ++i) by_copies[shared.copies[i]].push_back(gradients[i]);
  ValueId sum = kNoValue;
  for (const auto& [copies, same] : by_copies) {
    const ValueId squares =
        ops::scale(b, b.call("sum_squares", same), 1 / static_cast<double>(copies));
    sum = sum == kNoValue ? squares : ops::add(b, sum, squares);
  }
  const auto add_up = [&](const char* group, int64_t ranks) {
    if (ranks > 1)
      sum = b.call("all_reduce", {sum}, {{"group", std::string(group)}, {"ranks", ranks}});
  };
  add_up(passes::kTensorGroup, shared.ranks);
  add_up(plan::kPipelineGroup, shared.stages);
  return sum;
}

}  // namespace

AppendedUpdate append_adamw(Builder& b,
                            const OptimizerOptions& o,
                            std::span<const ValueId> parameters,
                            std::span<const ValueId> gradients,
                            const LossScaling* scaling,
                            const SharedGradients& shared) {
  RIDGE_CHECK(parameters.size() == gradients.size(), "{} gradients", gradients.size());
  b.set_phase(Phase::kOptimizer);
  auto scope = b.scope("optimizer");
  ValueId rate = b.input("learning_rate", {DType::kF32, {}});
  ValueId step = b.input("step", {DType::kF32, {}});
  std::vector<ValueId> head{rate, step};
  AppendedUpdate made;
  const bool clips = o.clip_norm > 0;
  if (scaling != nullptr) {
    const Type scalar{DType::kF32, {}};
    const ValueId squares = sum_of_squares(b, gradients, shared);
    const std::vector<ValueId> outputs =
        b.call_all("loss_scale",
                   {squares, b.state(kLossScale, scalar), b.state(kGoodSteps, scalar),
                    b.state(kSkippedSteps, scalar), step},
                   {{"growth_interval", scaling->growth_interval}, {"max_norm", o.clip_norm}});
    made = {clips ? outputs[5] : kNoValue, outputs[0], outputs[2]};
    head = {rate, outputs[4], outputs[3]};
  } else if (clips) {
    made.squared_norm = sum_of_squares(b, gradients, shared);
    head.push_back(b.call("clip_coefficient", {made.squared_norm}, {{"max_norm", o.clip_norm}}));
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Type type = b.type(parameters[i]);
    const std::string name = b.graph().value(parameters[i]).name;
    std::vector<ValueId> inputs = head;
    inputs.insert(inputs.end(), {parameters[i], gradients[i], b.state(name + kFirstMoment, type),
                                 b.state(name + kSecondMoment, type)});
    b.call_all("adamw", inputs,
               {{"beta1", o.beta1},
                {"beta2", o.beta2},
                {"eps", o.eps},
                {"weight_decay", o.decays_all || is_decayed(name, type) ? o.weight_decay : 0},
                {"clip", clips || scaling != nullptr}});
  }
  return made;
}

}  // namespace ridge::train
