// SPDX-License-Identifier: Apache-2.0
// The demo fusion: one GELU as eight kernels, as one generated kernel and as one hand-written one.
#include <fmt/format.h>

#include "base/units.h"
#include "courses/demos/demos.h"
#include "graph/builder.h"
#include "ops/build.h"
#include "ops/registry.h"

namespace ridge::courses {
namespace {

TrialGraph gelu(int64_t n) {
  TrialGraph trial;
  Builder b(trial.graph, ops::table());
  trial.graph.outputs = {ops::unary(b, "gelu_tanh", b.input("x", {DType::kF32, {n}}))};
  return trial;
}

void run(Fixture& fixture) {
  for (int64_t n : {1 << 12, 1 << 16, 1 << 20, 1 << 24}) {
    for (const auto& [form, switches] :
         {std::pair{"eager", "+split_activations"},
          std::pair{"generated", "+split_activations,+generate_pointwise"},
          std::pair{"hand-written", ""}}) {
      TrialSetting setting;
      setting.selection = passes::Selection("baseline", switches);
      fixture.add(form, {{"n", n}}, gelu(n), setting);
    }
  }
  const record::BenchPoint *eager = fixture.find("eager", 1 << 20),
                           *generated = fixture.find("generated", 1 << 20),
                           *written = fixture.find("hand-written", 1 << 20);
  if (eager == nullptr || generated == nullptr || written == nullptr) return;
  fixture.record.prediction = fmt::format(
      "of a million elements, eight kernels move {} and one moves {}: {:.1f} times the time.",
      format_bytes(eager->planned_bytes), format_bytes(generated->planned_bytes),
      times_predicted(eager, generated));
  fixture.record.finding = fmt::format(
      "eager takes {} the time of the generated kernel and {} that of the hand-written one; the generated one takes {} the time of "
      "the hand-written one.",
      times_text(eager, generated), times_text(eager, written), times_text(generated, written));
}

}  // namespace

Demo fusion_demo() {
  return {
      "fusion",
      "Eight kernels of one operation each move nine times the bytes of one kernel that does all eight.",
      {"Each kernel of an eager framework reads its operands from memory and writes its result there.",
       "A fused kernel keeps what is between them in registers: the FLOPs stay, the bytes go.",
       "A generated kernel moves as few bytes as a hand-written one, and computes formulas that it knows as fast.",
       "Fusion helps what memory bounds; a GEMM gains little more than its neighbours' passes."},
      "n: elements",
      run};
}

}  // namespace ridge::courses
