// SPDX-License-Identifier: Apache-2.0
// The demo tiling: a GEMM in tiles of T reads each operand N / T times.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/units.h"
#include "courses/demos/demos.h"

namespace ridge::courses {
namespace {

constexpr int kSize = 512;

void tiled(const std::vector<float>& a,
           const std::vector<float>& b,
           std::vector<float>& c,
           int tile) {
  std::memset(c.data(), 0, c.size() * sizeof(float));
  for (int i0 = 0; i0 < kSize; i0 += tile)
    for (int j0 = 0; j0 < kSize; j0 += tile)
      for (int k0 = 0; k0 < kSize; k0 += tile)
        for (int i = i0; i < std::min(i0 + tile, kSize); ++i)
          for (int k = k0; k < std::min(k0 + tile, kSize); ++k) {
            const float x = a[i * kSize + k];
            for (int j = j0; j < std::min(j0 + tile, kSize); ++j)
              c[i * kSize + j] += x * b[k * kSize + j];
          }
}

std::string element(char matrix, int row, int column) {
  return fmt::format("{}{}{}", matrix, row, column);
}

// Who reads what of a product M N of 4 x 4 matrices, one thread a result, and in tiles of 2 x 2.
std::vector<std::string> small_product() {
  constexpr int kSide = 4, kTile = 2;
  std::vector<std::string> notes;
  std::map<std::string, std::vector<std::string>> readers;  // by element
  for (int i = 0; i < kTile; ++i)
    for (int j = 0; j < kTile; ++j) {
      std::string text;
      for (int k = 0; k < kSide; ++k)
        for (const std::string& each : {element('M', i, k), element('N', k, j)}) {
          text += " " + each;
          readers[each].push_back(fmt::format("{}{}", i, j));
        }
      notes.push_back(fmt::format("4 x 4, thread {}{} reads{}.", i, j, text));
    }
  int64_t reads = 0;
  for (const auto& [name, threads] : readers) reads += std::ssize(threads);
  notes.push_back(fmt::format(
      "These four read {} elements, each of {} twice: M00 by {} and {}, N10 by {} and {}.", reads,
      readers.size(), readers["M00"][0], readers["M00"][1], readers["N10"][0], readers["N10"][1]));
  std::string phases;
  for (int k = 0; k < kSide; k += kTile)
    phases +=
        fmt::format("phase {} loads the tiles that begin at {} and {}, phase {} multiplies them; ",
                    k + 1, element('M', 0, k), element('N', k, 0), k + 2);
  notes.push_back(
      fmt::format("In tiles of 2 x 2 {}{} reads for {}.", phases, readers.size(), reads));
  return notes;
}

void run(Fixture& fixture) {
  std::vector<float> a(kSize * kSize), b(a.size()), c(a.size());
  Random random(2);
  random.fill_normal(a, 1);
  random.fill_normal(b, 1);
  const int64_t macs = int64_t{kSize} * kSize * kSize;
  const double threads = std::max(1, fixture.ceilings().machine.threads);
  // The compiler makes vectors of four: a multiplication and an addition of one a cycle.
  constexpr double kLanes = 4, kUsualClock = 3;
  const double clock =
      fixture.ceilings().machine.clock_ghz > 0 ? fixture.ceilings().machine.clock_ghz : kUsualClock;
  const double arithmetic = static_cast<double>(macs) / kLanes / clock;
  const double bandwidth = std::max(fixture.ceilings().memory_bytes_per_ns() / threads, 1e-3);
  for (int tile = 4; tile <= kSize; tile *= 2) {
    // N^3 / T elements each of A and B are read, and as many of C are read and written.
    const int64_t read = 4 * (4 * macs / tile);
    fixture.add_loop(
        "in tiles", {{"t", tile}},
        {products(macs), read, std::max(arithmetic, static_cast<double>(read) / bandwidth),
         [&, tile] { tiled(a, b, c, tile); }});
  }
  for (std::string& each : small_product()) fixture.record.notes.push_back(std::move(each));
  const record::BenchPoint *small = fixture.find("in tiles", 4),
                           *middle = fixture.find("in tiles", 64);
  if (small == nullptr || middle == nullptr) return;
  fixture.record.prediction =
      fmt::format("tiles of 4 read {}, tiles of 64 {}.", format_bytes(small->planned_bytes),
                  format_bytes(middle->planned_bytes));
  fixture.record.finding =
      fmt::format("tiles of 4 take {} the time of tiles of 64.", times_text(small, middle));
}

}  // namespace

Demo tiling_demo() {
  return {
      "tiling",
      "A tile of T by T turns N reads of each element into N / T.",
      {"Each operand of a GEMM is needed N times, and a tile that stays in a cache serves T of them.",
       "Intensity grows with the tile: T / 4 multiply-adds for each element that moves.",
       "A tile must fit the cache that it is meant for: three of them, T x T floats each.",
       "Tiles for registers, L1, L2 and, on a GPU, shared memory are the same idea at four sizes."},
      "t: side of a tile",
      run};
}

}  // namespace ridge::courses
