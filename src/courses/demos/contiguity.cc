// SPDX-License-Identifier: Apache-2.0
// The demo contiguity: a view costs nothing until a kernel must read it against its order.
#include <fmt/format.h>

#include "base/units.h"
#include "courses/demos/demos.h"
#include "graph/builder.h"
#include "ops/build.h"
#include "ops/registry.h"

namespace ridge::courses {
namespace {

// A transposed view of x[n,n] alone, its copy, and the copy of x as it lies.
TrialGraph copied(int64_t n, bool transposes) {
  TrialGraph trial;
  Builder b(trial.graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {n, n}});
  if (transposes) x = ops::transpose(b, x, {1, 0});
  trial.graph.outputs = {b.call("copy", {x})};
  return trial;
}

void run(Fixture& fixture) {
  for (int64_t n : {256, 512, 1024, 2048, 4096}) {
    fixture.add("as it lies", {{"n", n}}, copied(n, false));
    fixture.add("transposed", {{"n", n}}, copied(n, true));
  }
  const record::BenchPoint *rows = fixture.find("as it lies", 2048),
                           *columns = fixture.find("transposed", 2048);
  if (rows == nullptr || columns == nullptr) return;
  fixture.record.prediction =
      fmt::format("at 2048 both move {}; the transposed copy takes {:.2f} times as long.",
                  format_bytes(rows->planned_bytes), times_predicted(columns, rows));
  fixture.record.finding = fmt::format("it takes {} as long.", times_text(columns, rows));
}

}  // namespace

Demo contiguity_demo() {
  return {
      "contiguity",
      "A transposed view moves no byte, but its copy reads a cache line for each element.",
      {"Reshape, slice and transpose change offset and strides, not the buffer.",
       "A kernel that reads against the order uses 4 of the 64 bytes of each line that it fetches.",
       "Tiles repair it: all of a line is used before it leaves the cache.",
       "Lay data out for the kernel that reads it most, and copy once where several read it."},
      "n: rows and columns",
      run};
}

}  // namespace ridge::courses
