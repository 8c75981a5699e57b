// SPDX-License-Identifier: Apache-2.0
// The demo kv-cache: one more token of a layer, with and without the keys and values before it.
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
  for (int64_t context = 16; context <= 4096; context *= 4) {
    bench::ModuleRequest request;
    request.module = models::Module::kLayer;
    request.length = context;
    fixture.add("without", {{"c", context}}, bench::build_module(config, request), fused);
    request.phase = bench::ModulePhase::kDecode;
    TrialGraph step = bench::build_module(config, request);
    fixture.add("with", {{"c", context}}, step, fused);
    bench::project_again(config, request, context, step.graph);  // as the lab notebook does it
    fixture.add("keys and values again", {{"c", context}}, step, fused);
  }
  const record::BenchPoint *without = fixture.find("without", 1024),
                           *with = fixture.find("with", 1024);
  if (without == nullptr || with == nullptr) return;
  const int64_t entry = 2 * config.layers * config.kv_heads * config.head_size * 4;
  fixture.record.prediction = fmt::format(
      "after 1024 tokens, {} FLOPs a layer become {}, {:.0f} times less time.",
      format_count(static_cast<double>(without->work.flops)),
      format_count(static_cast<double>(with->work.flops)), times_predicted(without, with));
  fixture.record.finding = fmt::format(
      "after 64 tokens a token without the cache takes {} as long, after 1024 {}.",
      times_text(fixture.find("without", 64), fixture.find("with", 64)), times_text(without, with));
  fixture.record.notes.push_back(
      fmt::format("The cache of SmolLM2 135M takes {} a token in fp32.", format_bytes(entry)));
}

}  // namespace

Demo kv_cache_demo() {
  return {
      "kv-cache",
      "With a KV cache a token costs the same after any length, nearly; without one it costs all tokens again.",
      {"Keys and values of earlier tokens never change, so they are computed once.",
       "A decoded token then reads all weights and the cache, for two FLOPs a weight: memory-bound.",
       "What is saved in time is paid in memory: two vectors a layer for each token that is kept.",
       "Grouped heads, windows, 8-bit entries and paging all make this memory smaller."},
      "c: tokens before the new one",
      run};
}

}  // namespace ridge::courses
