// SPDX-License-Identifier: Apache-2.0
// The demo tile-and-wave-quantization: a size leaves the last tile or the last wave nearly empty.
#include <fmt/format.h>

#include "base/shape.h"
#include "base/units.h"
#include "courses/demos/demos.h"

namespace ridge::courses {
namespace {

// A square product in the lecture's tiles of 256 x 128, on the 108 multiprocessors of an A100.
std::string waves_text(int64_t n) {
  constexpr int64_t kTileRows = 256, kTileColumns = 128, kMultiprocessors = 108;
  const int64_t rows = ceil_div(n, kTileRows), columns = ceil_div(n, kTileColumns);
  return fmt::format("n = {} on an A100: {} x {} = {} tiles of 256 x 128 in {} of {}.", n, rows,
                     columns, rows * columns,
                     counted(ceil_div(rows * columns, kMultiprocessors), "wave"), kMultiprocessors);
}

// The lecture's figure: a column more than two tiles of 128.
std::string tiles_text() {
  constexpr int64_t kTile = 128, kRows = 256, kColumns = 257;
  const int64_t rows = ceil_div(kRows, kTile), columns = ceil_div(kColumns, kTile);
  return fmt::format("{} x {} in tiles of {} x {}: {} x {} = {} tiles, {} of them with {} of {}.",
                     kRows, kColumns, kTile, kTile, rows, columns, rows * columns,
                     rows * columns - rows * (kColumns / kTile),
                     counted(kColumns % kTile, "column"), kTile);
}

void run(Fixture& fixture) {
  constexpr int64_t kDepth = 512, kColumns = 512;
  for (int64_t n : {240, 248, 256, 257, 264, 272, 288, 304, 320, 321, 384, 385})
    fixture.add("library", {{"n", n}}, product_graph(n, kDepth, kColumns));
  fixture.record.cliffs = record::find_cliffs(fixture.record.points, "n");
  const record::BenchPoint *full = fixture.find("library", 256),
                           *over = fixture.find("library", 257);
  if (full == nullptr || over == nullptr) return;
  fixture.record.notes.push_back(tiles_text());
  for (const int64_t n : {1792, 1793}) fixture.record.notes.push_back(waves_text(n));
  fixture.record.prediction = "by FLOPs alone, 257 rows take 1.004 times the time of 256.";
  fixture.record.finding = fmt::format("257 rows take {} the time of 256.", times_text(over, full));
}

}  // namespace

Demo tile_and_wave_quantization_demo() {
  return {
      "tile-and-wave-quantization",
      "One row more can cost a whole tile, and one tile more a whole wave.",
      {"Kernels compute whole tiles: 257 rows in tiles of 16 or 128 leave nearly a tile of waste.",
       "A GPU runs as many tiles at once as it has multiprocessors; a tile more begins a new wave.",
       "The waste is largest where tiles are few: small matrices, large tiles.",
       "Pad dimensions to multiples of 64 or 128, vocabularies above all."},
      "n: rows",
      run};
}

}  // namespace ridge::courses
