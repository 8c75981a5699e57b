// SPDX-License-Identifier: Apache-2.0
// The demo launch-overhead: below a size, a kernel takes as long as its call.
#include <fmt/format.h>

#include "base/units.h"
#include "courses/demos/demos.h"
#include "graph/builder.h"
#include "ops/build.h"
#include "ops/registry.h"

namespace ridge::courses {
namespace {

// `count` additions in a chain, each a kernel of its own, over n elements.
TrialGraph additions(int64_t n, int count) {
  TrialGraph trial;
  Builder b(trial.graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {n}}), y = b.input("y", {DType::kF32, {n}});
  for (int i = 0; i < count; ++i) x = ops::add(b, x, y);
  trial.graph.outputs = {x};
  return trial;
}

void run(Fixture& fixture) {
  constexpr int kKernels = 32;
  for (int64_t n = 1; n <= int64_t{1} << 20; n *= 32) {
    fixture.add("32 kernels", {{"n", n}}, additions(n, kKernels));
    TrialSetting generated;
    generated.selection = passes::Selection("baseline", "+generate_pointwise");
    fixture.add("1 generated kernel", {{"n", n}}, additions(n, kKernels), generated);
  }
  const record::BenchPoint *small = fixture.find("32 kernels", 1),
                           *one = fixture.find("1 generated kernel", 1);
  if (small == nullptr || one == nullptr) return;
  fixture.record.prediction =
      fmt::format("32 calls on one element take {}, one call {}; a call costs {}.",
                  format_ns(small->predicted_ns), format_ns(one->predicted_ns),
                  format_ns(fixture.ceilings().launch_ns));
  fixture.record.finding = fmt::format(
      "32 kernels take {} the time of one on one element, and {} on a million.",
      times_text(small, one),
      times_text(fixture.find("32 kernels", 1 << 20), fixture.find("1 generated kernel", 1 << 20)));
}

}  // namespace

Demo launch_overhead_demo() {
  return {"launch-overhead",
          "On small operands the number of kernels decides, not their arithmetic.",
          {"A call costs the same for one element as for a thousand.",
           "Below that size, a kernel more is a call more, whatever it computes.",
           "Fewer kernels help twice: fewer calls, and fewer passes over memory.",
           "A captured graph removes the host's part of a call, fusion removes the call."},
          "n: elements",
          run};
}

}  // namespace ridge::courses
