// SPDX-License-Identifier: Apache-2.0
// The gradient of einsum, through its expansion, against differences of plain loops.
#include <gtest/gtest.h>

#include "ops/einsum_trial.h"
#include "passes/differentiate.h"

namespace ridge::passes {
namespace {

using namespace ops;

// The gradient of the weighted sum of the result.
TEST(EinsumGradient, IsThatOfDifferences) {
  Random random(12);
  for (int n = 0; n < 60; ++n) {
    Trial trial = draw_trial(random, 4);
    SCOPED_TRACE(trial.notation());
    Built built;
    for (const Tensor64& operand : trial.operands) built.add(operand);
    Builder& b = built.b;
    const ValueId made = built.expanded("einsum", {{"einsum", trial.notation()}});
    const Tensor64 weights = draw({DType::kF32, trial.shape(trial.out)}, {}, random);
    built.named["weights"] = weights;
    ValueId sum = mul(b, made, b.input("weights", weights.type));
    std::vector<int64_t> axes;
    for (int axis = 0; axis < b.shape(sum).rank(); ++axis) axes.push_back(axis);
    built.graph.outputs = {reshape(b, reduce_sum(b, sum, axes), Shape{})};
    const std::vector<ValueId> gradients =
        differentiate(built.graph, table(), built.graph.outputs[0], built.operands);
    const ReferenceRun run(built.graph, built.named);
    for (size_t i = 0; i < trial.operands.size(); ++i)
      for (size_t e = 0; e < trial.operands[i].data.size(); ++e) {
        auto loss = [&](double there) {
          Trial moved = trial;
          moved.operands[i].data[e] += there;
          double total = 0;
          const std::vector<double> values = by_loops(moved);
          for (size_t v = 0; v < values.size(); ++v) total += values[v] * weights.data[v];
          return total;
        };
        // A product is linear in each operand, so a wide step has no error.
        ASSERT_NEAR(run[gradients[i]][e], (loss(0.5) - loss(-0.5)), 1e-7) << i << " " << e;
      }
  }
}

}  // namespace
}  // namespace ridge::passes
