// SPDX-License-Identifier: Apache-2.0
// The demo flash-attention: the same attention with and without its matrix of scores in memory.
#include <fmt/format.h>

#include "base/units.h"
#include "bench/op_shapes.h"
#include "courses/demos/demos.h"

namespace ridge::courses {
namespace {

void run(Fixture& fixture) {
  const bench::OpShape& attention = *bench::find_op_shape("attention");
  for (int64_t t = 128; t <= 32768; t *= 2)
    for (const bench::Implementation& each : attention.implementations) {
      bench::OpRequest request;
      request.extents = points(attention.letters, {{"h", 4}, {"k", 2}, {"t", t}}, {})[0];
      request.is_causal = true;
      request.implementation = each;
      TrialSetting setting;
      setting.selection = passes::Selection("baseline", each.switches);
      fixture.add(each.name, {{"t", t}}, attention.build(request), setting);
    }
  const record::BenchPoint *standard = fixture.find("standard", 2048),
                           *flash = fixture.find("flash", 2048);
  if (standard == nullptr || flash == nullptr) return;
  fixture.record.prediction = fmt::format(
      "at 2048 tokens standard attention owns {} and flash {}; it takes {:.1f} times as long.",
      format_bytes(standard->owned_bytes), format_bytes(flash->owned_bytes),
      times_predicted(standard, flash));
  fixture.record.finding =
      fmt::format("standard attention takes {} the time of flash at 512 tokens and {} at 2048.",
                  times_text(fixture.find("standard", 512), fixture.find("flash", 512)),
                  times_text(standard, flash));
}

}  // namespace

Demo flash_attention_demo() {
  return {
      "flash-attention",
      "Attention in tiles has the same result, memory that grows with the length instead of its square, and less time.",
      {"The scores of a head are T x T: written, masked, normalised and read again by kernels of their own.",
       "A running maximum and sum let softmax finish in tiles, so that the matrix is never stored.",
       "Causal tiles above the diagonal are skipped, which the full matrix computes and masks.",
       "The FLOPs hardly change; bytes and memory do, and the longest sequence that fits with them."},
      "t: tokens of a sequence",
      run};
}

}  // namespace ridge::courses
