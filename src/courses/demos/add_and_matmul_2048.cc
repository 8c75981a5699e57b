// SPDX-License-Identifier: Apache-2.0
// The demo add-and-matmul-2048: the same operands, two thousand times the FLOPs, and nowhere near
// that in time.
#include <fmt/format.h>

#include "base/units.h"
#include "courses/demos/demos.h"
#include "graph/builder.h"
#include "ops/build.h"
#include "ops/registry.h"

namespace ridge::courses {
namespace {

TrialGraph addition(int64_t n) {
  TrialGraph trial;
  Builder b(trial.graph, ops::table());
  trial.graph.outputs = {
      ops::add(b, b.input("x", {DType::kF32, {n, n}}), b.input("y", {DType::kF32, {n, n}}))};
  return trial;
}

void run(Fixture& fixture) {
  for (int64_t n : {512, 1024, 2048}) {
    fixture.add("add", {{"n", n}}, addition(n));
    fixture.add("matmul", {{"n", n}}, product_graph(n, n, n));
  }
  const record::BenchPoint *add = fixture.find("add", 1024), *matmul = fixture.find("matmul", 1024);
  if (add == nullptr || matmul == nullptr) return;
  fixture.record.prediction = fmt::format(
      "at 1024 the product has {} FLOPs for each of the sum, and takes {:.0f} times as long.",
      matmul->work.flops / std::max<int64_t>(add->work.flops, 1), times_predicted(matmul, add));
  fixture.record.finding =
      fmt::format("at 1024 it takes {} as long; the sum is bound by {}, the product by {}.",
                  times_text(matmul, add), add->bound_by(), matmul->bound_by());
}

}  // namespace

Demo add_and_matmul_2048_demo() {
  return {
      "add-and-matmul-2048",
      "A sum and a product of the same matrices move the same bytes, but only one of them is bound by them.",
      {"A sum does one FLOP for twelve bytes, so the arithmetic units wait for memory.",
       "A product does n / 6 FLOPs for each byte, so memory waits for the arithmetic units.",
       "FLOPs alone predict neither time; the larger of two times does.",
       "Two sizes show which of the two bounds a kernel: the time grows with n^2 or with n^3."},
      "n: rows and columns",
      run};
}

}  // namespace ridge::courses
