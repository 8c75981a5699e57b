// SPDX-License-Identifier: Apache-2.0
// The demo coalescing: one of every s elements, from a stride of 1 to one of 32.
#include <fmt/format.h>

#include "base/units.h"
#include "courses/demos/demos.h"
#include "graph/builder.h"
#include "ops/build.h"
#include "ops/registry.h"

namespace ridge::courses {
namespace {

constexpr int64_t kElements = int64_t{1} << 20;

TrialGraph every(int64_t stride) {
  TrialGraph trial;
  Builder b(trial.graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {kElements, stride}});
  trial.graph.outputs = {b.call("copy", {ops::slice(b, x, 1, 0, 1)})};
  return trial;
}

void run(Fixture& fixture) {
  for (int64_t stride : {1, 2, 4, 8, 16, 32})
    fixture.add("a million elements", {{"s", stride}}, every(stride));
  const record::BenchPoint *dense = fixture.find("a million elements", 1),
                           *sparse = fixture.find("a million elements", 32);
  if (dense == nullptr || sparse == nullptr) return;
  fixture.record.prediction =
      fmt::format("each reads and writes {}; at a stride of 32 it takes {:.1f} times as long.",
                  format_bytes(dense->planned_bytes), times_predicted(sparse, dense));
  fixture.record.finding =
      fmt::format("at a stride of 32 it takes {} as long.", times_text(sparse, dense));
}

}  // namespace

Demo coalescing_demo() {
  return {
      "coalescing",
      "The same million elements cost more the further apart they lie.",
      {"Memory comes in lines of 64 bytes (a GPU: sectors of 32), whether one element of them is used or all.",
       "From a stride of 16 floats on, each element costs a line, and a larger stride costs no more lines.",
       "A GPU's warp that reads neighbouring elements needs one transaction, at a stride of 32 it needs 32.",
       "Planned bytes count elements; the lines that a layout wastes show in the time."},
      "s: elements from one read to the next",
      run};
}

}  // namespace ridge::courses
