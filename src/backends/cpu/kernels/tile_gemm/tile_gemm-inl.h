// SPDX-License-Identifier: Apache-2.0
// The order in which a GEMM multiplies tiles, for any unit with tile registers: AMX
// (tile_gemm_amx.cc), or in tests plain arithmetic that defines what a tile instruction computes.
// Private to those.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/tile_gemm/tile_gemm.h"
#include "backends/cpu/kernels/tile_gemm/tile_shape.h"

namespace ridge::backends::cpu {

// Two tiles of rows by two of columns fill the eight registers: four of sums, two of each operand.
// Operands are padded to such pairs.
inline constexpr int64_t kPairRows = 2 * kTileRows;
inline constexpr int64_t kPairElements = 2 * kTileElements;
inline constexpr int64_t kBlockSums = kPairRows * kPairRows;

inline int64_t pairs(int64_t rows) { return (rows + kPairRows - 1) / kPairRows; }

// An operand in tiles: [pairs, depth tiles, 2, one tile].
struct TileOperand {
  uint16_t* data = nullptr;
  int64_t pair_elements = 0;
  uint16_t* at(int64_t pair, int64_t depth_tile = 0) const {
    return data + pair * pair_elements + depth_tile * kPairElements;
  }
};

// How a GEMM is cut. The larger operand is processed in stripes: the thread that multiplies a
// stripe also converts it to tiles, which stay in its L2. The other operand is shared. Reading what
// another core has just written is slower than anything else here, so the smaller operand is the
// shared one.
struct TileGemmPlan {
  static constexpr int64_t kMostStripe = 8;        // pairs: 256 KiB at depth 512
  static constexpr int64_t kStripesPerThread = 4;  // if there are that many pairs
  static constexpr int64_t kMostShared = 16;       // pairs whose sums are kept: 512 KiB
  static constexpr int64_t kMostPart = 16;         // depth tiles: a pair's 32 KiB stay in L1
  static constexpr int64_t kAlone = 256;           // 2 us of products: a team starts no faster

  TileGemmPlan(int64_t m, int64_t n, int64_t k, int threads)
      : stripes_a(m >= n),
        striped_pairs(pairs(std::max(m, n))),
        shared_pairs(pairs(std::min(m, n))),
        depth_tiles((k + kTileDepth - 1) / kTileDepth) {
    const int64_t parts = (depth_tiles + kMostPart - 1) / kMostPart;
    part = (depth_tiles + parts - 1) / parts;
    team = 4 * striped_pairs * shared_pairs * depth_tiles < kAlone ? 1 : threads;
    stripe = std::clamp<int64_t>(striped_pairs / (kStripesPerThread * team), 1, kMostStripe);
  }

  // Whether sums are kept between parts of the depth. With one part, only the sums of the current
  // block and the one before it are kept.
  bool keeps_sums() const { return part < depth_tiles; }
  int64_t kept_sums() const {
    return (keeps_sums() ? stripe * std::min(shared_pairs, kMostShared) : 2) * kBlockSums;
  }

  int64_t pair_elements() const { return depth_tiles * kPairElements; }
  int64_t shared_bytes() const { return 2 * shared_pairs * pair_elements(); }
  int64_t stripe_bytes() const { return 2 * stripe * pair_elements(); }
  int64_t thread_bytes() const { return stripe_bytes() + 4 * kept_sums(); }
  int64_t bytes() const { return shared_bytes() + team * thread_bytes(); }

  bool stripes_a;  // else B is striped
  int64_t striped_pairs, shared_pairs, depth_tiles;
  int team = 1;        // threads
  int64_t part = 0;    // depth tiles at a time
  int64_t stripe = 0;  // pairs
};

// Converts a pair of an operand's rows to tiles over the whole depth, with zeros past its last row
// and depth: A in rows as stored, B with pairs of the depth as rows.
void fill_rows(const TileMatrix& from, int64_t rows, int64_t depth, int64_t pair, uint16_t* to);
void fill_pairs(const TileMatrix& from, int64_t rows, int64_t depth, int64_t pair, uint16_t* to);

struct TileBlock;

// Writes the next `count` rows of a block's sums [2, 2, 16, 16] to C, where the block may be cut
// off at an edge.
void write_rows(const TileBlock& block, int64_t count);

// A block of C. Its rows are prefetched (they are in L3 or farther) and later written a few at a
// time between the next multiplications, since the tile unit and the other units do not wait for
// each other.
struct TileBlock {
  static constexpr int64_t kRowsAStep = 2;

  const TileGemm* call = nullptr;
  int64_t row = 0, column = 0;
  const float* sums = nullptr;
  int64_t next = kPairRows;  // its first row not yet written; kPairRows: nothing to write

  int64_t rows() const { return std::min(kPairRows, call->m - row); }
  void fetch(int64_t from) const {
    const int64_t width = call->c_is_bf16 ? 2 : 4;
    for (int64_t r = from; r < std::min(from + kRowsAStep, rows()); ++r) {
      const std::byte* line = call->c + ((row + r) * call->c_step + column) * width;
      __builtin_prefetch(line, 1);
      __builtin_prefetch(line + (std::min(kPairRows, call->n - column) - 1) * width, 1);
    }
  }
  void write(int64_t count) {
    if (next >= kPairRows) return;
    write_rows(*this, count);
    next += count;
  }
  void finish() { write(kPairRows - next); }
};

// Registers: sums 0..3 ([row tile][column tile]), A's tiles 4 and 5, B's 6 and 7. Loads are grouped
// and so are multiplications: a core whose tiles are throttled
// (docs/runs/2026-11-22-training-amx-native-gemm.md) overlaps them little, with 24.5 ns per
// multiplication in this order and 27.4 interleaved; otherwise both take 5.8. The striped operand
// bypasses L1, where the shared one stays.
template <typename Unit, bool kStripesA>
inline void multiply_pairs(const uint16_t* a,
                           const uint16_t* b,
                           int64_t depth_tiles,
                           const TileBlock* block,
                           TileBlock& before) {
  constexpr int64_t kStep = 2 * kTileDepth;
  for (int64_t k = 0; k < depth_tiles; ++k, a += kPairElements, b += kPairElements) {
    if constexpr (kStripesA) {
      Unit::template load<6>(b, kStep);
      Unit::template load_passing<4>(a, kStep);
      Unit::template load<7>(b + kTileElements, kStep);
      Unit::template load_passing<5>(a + kTileElements, kStep);
    } else {
      Unit::template load_passing<6>(b, kStep);
      Unit::template load<4>(a, kStep);
      Unit::template load_passing<7>(b + kTileElements, kStep);
      Unit::template load<5>(a + kTileElements, kStep);
    }
    Unit::template multiply<0, 4, 6>();
    Unit::template multiply<1, 4, 7>();
    Unit::template multiply<2, 5, 6>();
    Unit::template multiply<3, 5, 7>();
    if (block != nullptr) block->fetch(k * TileBlock::kRowsAStep);
    before.write(TileBlock::kRowsAStep);
  }
}

template <typename Unit>
inline void begin_block(const float* sums, bool is_first) {
  constexpr int64_t kTile = kTileRows * kTileRows, kStep = 4 * kTileRows;
  if (is_first) {
    Unit::template zero<0>();
    Unit::template zero<1>();
    Unit::template zero<2>();
    Unit::template zero<3>();
  } else {
    Unit::template load<0>(sums, kStep);
    Unit::template load<1>(sums + kTile, kStep);
    Unit::template load<2>(sums + 2 * kTile, kStep);
    Unit::template load<3>(sums + 3 * kTile, kStep);
  }
}

template <typename Unit>
inline void end_block(float* sums) {
  constexpr int64_t kTile = kTileRows * kTileRows, kStep = 4 * kTileRows;
  Unit::template store<0>(sums, kStep);
  Unit::template store<1>(sums + kTile, kStep);
  Unit::template store<2>(sums + 2 * kTile, kStep);
  Unit::template store<3>(sums + 3 * kTile, kStep);
}

// The operands in tiles, and a thread's sums.
struct StripeTiles {
  TileOperand shared, stripe;
  float* kept;
};

// Multiplies a stripe, the pairs `striped`, with all of the shared operand.
template <typename Unit, bool kStripesA>
void multiply_stripe(const TileGemm& call,
                     const TileGemmPlan& plan,
                     const StripeTiles& tiles,
                     Range striped) {
  TileBlock before;
  const auto multiply = [&](int64_t s, int64_t p, int64_t k, int64_t depth, float* sums) {
    const bool is_last = k + depth == plan.depth_tiles;
    const int64_t row = kPairRows * (kStripesA ? striped.begin + p : s);
    const int64_t column = kPairRows * (kStripesA ? s : striped.begin + p);
    const TileBlock block{&call, row, column, sums, 0};
    const uint16_t *at_s = tiles.shared.at(s, k), *at_p = tiles.stripe.at(p, k);
    begin_block<Unit>(sums, k == 0);
    multiply_pairs<Unit, kStripesA>(kStripesA ? at_p : at_s, kStripesA ? at_s : at_p, depth,
                                    is_last ? &block : nullptr, before);
    before.finish();
    end_block<Unit>(sums);
    if (is_last) before = block;
  };
  for (int64_t from = 0; from < plan.shared_pairs; from += TileGemmPlan::kMostShared) {
    const int64_t end = std::min(from + TileGemmPlan::kMostShared, plan.shared_pairs);
    for (int64_t k = 0; k < plan.depth_tiles; k += plan.part) {
      int64_t at = 0;
      for (int64_t s = from; s < end; ++s) {
        for (int64_t p = 0; p < striped.end - striped.begin; ++p) {
          multiply(s, p, k, std::min(plan.part, plan.depth_tiles - k),
                   tiles.kept + at * kBlockSums);
          at = plan.keeps_sums() ? at + 1 : 1 - at;
        }
      }
      before.finish();
    }
  }
}

template <typename Unit>
void tile_gemm_by(const TileGemm& call, std::byte* workspace, int threads) {
  const TileGemmPlan plan(call.m, call.n, call.k, threads);
  const auto fill = [&](bool is_a, int64_t pair, uint16_t* to) {
    is_a ? fill_rows(call.a, call.m, call.k, pair, to)
         : fill_pairs(call.b, call.n, call.k, pair, to);
  };
  const TileOperand shared{reinterpret_cast<uint16_t*>(workspace), plan.pair_elements()};
#pragma omp parallel num_threads(plan.team) if (plan.team > 1)
  {
    std::byte* scratch =
        workspace + plan.shared_bytes() + omp_get_thread_num() * plan.thread_bytes();
    const TileOperand stripe{reinterpret_cast<uint16_t*>(scratch), plan.pair_elements()};
    const StripeTiles tiles{shared, stripe,
                            reinterpret_cast<float*>(scratch + plan.stripe_bytes())};
#pragma omp for schedule(static)
    for (int64_t pair = 0; pair < plan.shared_pairs; ++pair)
      fill(!plan.stripes_a, pair, shared.at(pair));
    [[maybe_unused]] const typename Unit::Shapes shapes;
#pragma omp for schedule(dynamic)
    for (int64_t first = 0; first < plan.striped_pairs; first += plan.stripe) {
      const Range striped{first, std::min(first + plan.stripe, plan.striped_pairs)};
      for (int64_t pair = striped.begin; pair < striped.end; ++pair)
        fill(plan.stripes_a, pair, stripe.at(pair - first));
      plan.stripes_a ? multiply_stripe<Unit, true>(call, plan, tiles, striped)
                     : multiply_stripe<Unit, false>(call, plan, tiles, striped);
    }
  }
}

}  // namespace ridge::backends::cpu
