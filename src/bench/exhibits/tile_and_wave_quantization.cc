// SPDX-License-Identifier: Apache-2.0
// The exhibit tile-and-wave-quantization: a size that leaves the last tile or the last wave of tiles nearly empty.
#include <fmt/format.h>

#include "bench/exhibits/exhibits.h"

namespace ridge::bench {
namespace {

void run(Stand& stand) {
  constexpr int64_t kDepth = 512, kColumns = 512;
  for (int64_t n : {240, 248, 256, 257, 264, 272, 288, 304, 320, 321, 384, 385})
    stand.add("library", {{"n", n}}, product_graph(n, kDepth, kColumns));
  stand.record.cliffs = record::find_cliffs(stand.record.points, "n");
  const record::BenchPoint *full = stand.find("library", 256), *over = stand.find("library", 257);
  if (full == nullptr || over == nullptr) return;
  stand.record.prediction = "by FLOPs alone, 257 rows take 1.004 times the time of 256.";
  stand.record.finding = fmt::format("257 rows take {} the time of 256.", times_text(over, full));
}

}  // namespace

Exhibit tile_and_wave_quantization_exhibit() {
  return {
      "tile-and-wave-quantization",
      "One row more can cost a whole tile, and one tile more a whole wave.",
      {"Kernels compute whole tiles: 257 rows in tiles of 16 or 128 leave nearly a tile of waste.",
       "A GPU runs as many tiles at once as it has multiprocessors; a tile more begins a new wave.",
       "The waste is largest where tiles are few: small matrices, large tiles.",
       "Pad dimensions to multiples of 64 or 128, vocabularies above all."},
      "n",
      run};
}

}  // namespace ridge::bench
