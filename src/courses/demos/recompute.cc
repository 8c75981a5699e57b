// SPDX-License-Identifier: Apache-2.0
// The demo recompute: the gradient of three sigmoids, with results kept and results recomputed.
#include <fmt/format.h>

#include "base/units.h"
#include "courses/demos/demos.h"
#include "graph/builder.h"
#include "ops/build.h"
#include "ops/registry.h"

namespace ridge::courses {
namespace {

TrialGraph sigmoids(int64_t n) {
  TrialGraph trial;
  Builder b(trial.graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {n}});
  auto layer = b.scope("layer.0");  // results inside a layer may be computed again
  for (int i = 0; i < 3; ++i) x = ops::unary(b, "sigmoid", x);
  trial.graph.outputs = {x};
  return trial;
}

// Passes over memory of n floats.
int64_t passes_over(const record::BenchPoint& point, int64_t n) {
  return point.planned_bytes / (4 * n);
}

void run(Fixture& fixture) {
  constexpr int64_t kLargest = 1 << 22;
  for (int64_t n = 1 << 12; n <= kLargest; n *= 32)
    for (const auto& [form, switches] :
         {std::pair{"kept", "+generate_pointwise"},
          std::pair{"computed again", "+recompute,+generate_pointwise"}}) {
      TrialSetting setting;
      setting.is_backward = true;
      setting.selection = passes::Selection("baseline", switches);
      fixture.add(form, {{"n", n}}, sigmoids(n), setting);
    }
  const record::BenchPoint *kept = fixture.find("kept", kLargest),
                           *again = fixture.find("computed again", kLargest);
  if (kept == nullptr || again == nullptr) return;
  fixture.record.prediction = fmt::format(
      "{} passes over memory become {}, {} FLOPs become {}: {:.2f} times the time.",
      passes_over(*kept, kLargest), passes_over(*again, kLargest),
      format_count(static_cast<double>(kept->work.flops)),
      format_count(static_cast<double>(again->work.flops)), times_predicted(kept, again));
  fixture.record.finding =
      fmt::format("keeping takes {} the time of computing again.", times_text(kept, again));
}

}  // namespace

Demo recompute_demo() {
  return {
      "recompute",
      "Computing three sigmoids twice can be faster than reading their results back.",
      {"Kept results are written by the forward pass and read by the backward pass.",
       "Computed again, the backward pass needs the input and the gradient alone: five passes in all.",
       "More FLOPs take less time where memory is the bound, and arithmetic is free until it is not.",
       "In a model the same trade saves memory first: activations are what fills a GPU."},
      "n: elements",
      run};
}

}  // namespace ridge::courses
