// SPDX-License-Identifier: Apache-2.0
// The demo mlp-scaling: the time of a gated MLP by its batch, from a vector to a matrix.
#include <fmt/format.h>

#include "base/units.h"
#include "bench/module_trial.h"
#include "courses/demos/demos.h"
#include "models/known_shapes.h"

namespace ridge::courses {
namespace {

void run(Fixture& fixture) {
  const models::ModelConfig& config = *models::find_known_shape("smollm2-135m");
  TrialSetting fused;
  fused.selection = passes::Selection("kernels", "");
  for (int64_t tokens = 1; tokens <= 4096; tokens *= 4) {
    bench::ModuleRequest request;
    request.length = tokens;
    fixture.add("MLP of SmolLM2 135M", {{"n", tokens}}, bench::build_module(config, request),
                fused);
  }
  models::ModelConfig wide = config;
  wide.feed_forward *= 4;
  for (int64_t tokens : {1, 64, 1024}) {
    bench::ModuleRequest request;
    request.length = tokens;
    fixture.add("four times as wide", {{"n", tokens}}, bench::build_module(wide, request), fused);
  }
  const char* name = "MLP of SmolLM2 135M";
  const record::BenchPoint *one = fixture.find(name, 1), *many = fixture.find(name, 64);
  if (one == nullptr || many == nullptr) return;
  fixture.record.prediction =
      fmt::format("64 tokens take {:.1f} times as long as one.", times_predicted(many, one));
  fixture.record.finding = fmt::format("64 tokens take {} as long as one.", times_text(many, one));
}

}  // namespace

Demo mlp_scaling_demo() {
  return {
      "mlp-scaling",
      "The first tokens of a batch are nearly free, because the weights are read anyway.",
      {"One token reads every weight for two FLOPs each; the time is that of reading.",
       "More tokens share the reading, until arithmetic takes longer: the ridge point.",
       "From there on the time is proportional to the tokens, and a larger batch gains nothing.",
       "A wider MLP moves both limits alike: bytes and FLOPs grow with the width."},
      "n: tokens",
      run};
}

}  // namespace ridge::courses
