// SPDX-License-Identifier: Apache-2.0
// The demo divergence: lanes that take different sides of a branch wait for both.
#include <fmt/format.h>

#include "courses/demos/demos.h"
#include "graph/builder.h"
#include "ops/build.h"
#include "ops/registry.h"

namespace ridge::courses {
namespace {

constexpr int kDepth = 4;  // functions in a chain, so that arithmetic takes longer than memory

ValueId side(Builder& b, ValueId x, const char* function) {
  for (int i = 0; i < kDepth; ++i) x = ops::unary(b, function, x);
  return x;
}

enum class Sides { kFirst, kSecond, kBoth };

// if (x > 0) tanh four times, else sigmoid four times. A mask of 0 and 1 chooses between two sides.
TrialGraph branch(int64_t n, Sides sides) {
  TrialGraph trial;
  Builder b(trial.graph, ops::table());
  const ValueId x = b.input("x", {DType::kF32, {n}});
  ValueId y = kNoValue;
  if (sides != Sides::kBoth) {
    y = side(b, x, sides == Sides::kFirst ? "tanh" : "sigmoid");
  } else {
    const ValueId mask = ops::unary(b, "step", x), first = side(b, x, "tanh"),
                  second = side(b, x, "sigmoid");
    y = ops::add(b, ops::mul(b, mask, ops::sub(b, first, second)), second);
  }
  trial.graph.outputs = {y};
  return trial;
}

void run(Fixture& fixture) {
  TrialSetting generated;
  generated.selection = passes::Selection("baseline", "+generate_pointwise");
  constexpr int64_t kLargest = 1 << 20;
  for (int64_t n = 1 << 12; n <= kLargest; n *= 16) {
    fixture.add("all lanes: tanh", {{"n", n}}, branch(n, Sides::kFirst), generated);
    fixture.add("all lanes: sigmoid", {{"n", n}}, branch(n, Sides::kSecond), generated);
    fixture.add("lanes differ", {{"n", n}}, branch(n, Sides::kBoth), generated);
  }
  const record::BenchPoint *first = fixture.find("all lanes: tanh", kLargest),
                           *second = fixture.find("all lanes: sigmoid", kLargest),
                           *both = fixture.find("lanes differ", kLargest);
  if (first == nullptr || second == nullptr || both == nullptr) return;
  fixture.record.prediction = fmt::format(
      "both sides are computed for every lane: {} FLOPs become {} for a million elements, and {:.2f} "
      "times the time of the first side.",
      first->work.flops, both->work.flops, times_predicted(both, first));
  fixture.record.finding = fmt::format(
      "lanes that differ take {} the time of the first side, and {} that of the second.",
      times_text(both, first), times_text(both, second));
}

}  // namespace

Demo divergence_demo() {
  return {
      "divergence",
      "Lanes of a vector or a warp that take different sides of a branch take the time of both.",
      {"A warp's 32 threads, like the lanes of a CPU's vector, share one instruction at a time.",
       "Where they differ, both sides run for all of them, and a mask keeps one result each.",
       "A branch costs nothing where all lanes of a warp agree: sort or group the data by it.",
       "Ridge's kernels have no branches on data: pointwise choices are masks, as here."},
      "n: elements",
      run};
}

}  // namespace ridge::courses
