// SPDX-License-Identifier: Apache-2.0
// Strided copies: runs, repeated elements, transpositions in tiles, and a scalar loop for other
// layouts.
#include "backends/cpu/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/copy/copy.cc"
#include "backends/cpu/kernels/simd_targets.h"

#include <algorithm>
#include <type_traits>

#include "backends/cpu/kernels/copy/copy_plan.h"
#include "backends/cpu/kernels/element.h"
#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/typed_dispatch.h"
#include "backends/cpu/kernels/vector_io-inl.h"

#ifndef RIDGE_CPU_COPY_UNITS_
#define RIDGE_CPU_COPY_UNITS_
namespace ridge::backends::cpu {

// Elements of a run in one unit of work: 16 Ki, so that a long run is split among threads.
inline constexpr int64_t kRunPiece = 16 << 10;
// Rows and columns of a transposed tile: two whole cache lines on the source's side, and a buffer
// of at most 8 KiB.
template <typename From>
inline constexpr int64_t kTile = 128 / static_cast<int64_t>(sizeof(From));
inline constexpr int64_t kBand = 8;  // tiles; see TileOrder
// Short runs that are scattered over the source are prefetched this many runs ahead: 8 runs of 512
// bytes take as long as the 100 ns of a miss.
inline constexpr int64_t kRunsAhead = 8;
inline constexpr int64_t kShortRunBytes = 2048;

inline int64_t pieces(int64_t extent, int64_t piece) { return (extent + piece - 1) / piece; }

template <typename From, typename To>
struct PlannedCopy {
  CopyPlan plan;
  const From* source;
  To* target;
  bool accumulate;
  bool large;  // stores to the target bypass the caches
};

}  // namespace ridge::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

template <typename From, typename To>
HWY_INLINE void copy_run(const From* from, To* to, int64_t count, bool accumulate, bool streamed) {
  if (accumulate) {
    for_lanes(count, [&](auto part, int64_t i) HWY_ATTR {
      store(part, hn::Add(load(part, to + i), load(part, from + i)), to + i);
    });
    return;
  }
  for_lanes(count, [&](auto part, int64_t i)
                       HWY_ATTR { store(part, load(part, from + i), to + i, streamed); });
}

// 16 bits to the same type moves bits: widening and rounding would keep every number but not a
// NaN's last bits.
HWY_INLINE void copy_run(const uint16_t* from,
                         uint16_t* to,
                         int64_t count,
                         bool accumulate,
                         bool streamed) {
  if (accumulate) {
    copy_run<uint16_t, uint16_t>(from, to, count, true, false);
    return;
  }
  const hn::ScalableTag<uint16_t> d;
  const int64_t step = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + step <= count; i += step) {
    auto v = hn::LoadU(d, from + i);
    if (streamed) {
      hn::Stream(v, d, to + i);
    } else {
      hn::StoreU(v, d, to + i);
    }
  }
  std::memcpy(to + i, from + i, static_cast<size_t>(count - i) * sizeof(uint16_t));
}

HWY_INLINE void copy_run(const Float16* from,
                         Float16* to,
                         int64_t count,
                         bool accumulate,
                         bool streamed) {
  if (accumulate)
    copy_run<Float16, Float16>(from, to, count, true, false);
  else
    copy_run(bits_at(from), bits_at(to), count, false, streamed);
}

// Whether a copy moves bits.
template <typename From, typename To>
inline constexpr bool kMovesHalves = std::is_same_v<From, To> && sizeof(To) == sizeof(uint16_t);

// Mapping: pieces of runs in static ranges over threads. Bound: memory; the source is read and the
// target written once (and read, if accumulating).
template <typename From, typename To>
HWY_INLINE void copy_runs(const PlannedCopy<From, To>& call, Range units) {
  const CopyPlan& plan = call.plan;
  const int64_t per_run = pieces(plan.inner, kRunPiece);
  OuterPosition position(plan, units.begin / per_run);
  int64_t piece = units.begin % per_run;
  const int64_t run_bytes = bytes_of<From>(plan.inner);
  const bool fetch = plan.path == CopyPath::kRuns && run_bytes <= kShortRunBytes;
  OuterPosition ahead(plan, (units.begin + kRunsAhead) % plan.outer_count);
  for (int64_t unit = units.begin; unit < units.end; ++unit) {
    const int64_t first = piece * kRunPiece;
    const int64_t count = HWY_MIN(kRunPiece, plan.inner - first);
    To* to = call.target + position.target() + first;
    const bool streamed = call.large && is_aligned(to);
    const From* from = call.source + position.source();
    if (fetch) {
      const char* run = reinterpret_cast<const char*>(call.source + ahead.source());
      for (int64_t byte = 0; byte < run_bytes; byte += 64) prefetch_to_l2(run + byte);
      ahead.advance();
    }
    if (plan.path == CopyPath::kRuns) {
      copy_run(from + first, to, count, call.accumulate, streamed);
    } else if (kMovesHalves<From, To> && !call.accumulate) {
      // Moves bits, as copy_run does.
      if constexpr (kMovesHalves<From, To>) std::fill_n(bits_at(to), count, *bits_at(from));
    } else {
      const V32 v = hn::Set(F32(), hn::GetLane(load(Partial{1}, from)));
      for_lanes(count, [&](auto part, int64_t i) HWY_ATTR {
        V32 sum = call.accumulate ? hn::Add(load(part, to + i), v) : v;
        store(part, sum, to + i, streamed && !call.accumulate);
      });
    }
    if (++piece == per_run) {
      piece = 0;
      position.advance();
    }
  }
  if (call.large) hwy::FlushStream();
}

#if HWY_TARGET != HWY_SCALAR
// buffer[i][j] = rows[j][i] for a square with rows of 128 bits: 4 x 4 of float ...
HWY_INLINE void transpose_square(const float* rows, int64_t stride, float* buffer) {
  const hn::Full128<float> d;
  const hn::Full128<double> dd;
  auto r0 = hn::LoadU(d, rows);
  auto r1 = hn::LoadU(d, rows + stride);
  auto r2 = hn::LoadU(d, rows + 2 * stride);
  auto r3 = hn::LoadU(d, rows + 3 * stride);
  auto low01 = hn::BitCast(dd, hn::InterleaveLower(d, r0, r1));
  auto high01 = hn::BitCast(dd, hn::InterleaveUpper(d, r0, r1));
  auto low23 = hn::BitCast(dd, hn::InterleaveLower(d, r2, r3));
  auto high23 = hn::BitCast(dd, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dd, low01, low23)), d, buffer);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dd, low01, low23)), d, buffer + kTile<float>);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dd, high01, high23)), d, buffer + 2 * kTile<float>);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dd, high01, high23)), d, buffer + 3 * kTile<float>);
}

// ... and 8 x 8 of 16 bits: three steps that interleave 16, 32 and 64 bits.
HWY_INLINE void transpose_square(const uint16_t* rows, int64_t stride, uint16_t* buffer) {
  const hn::Full128<uint16_t> d16;
  const hn::Full128<uint32_t> d32;
  const hn::Full128<uint64_t> d64;
  hn::Vec<decltype(d32)>
      pairs[8];  // pairs[2k + h]: rows 2k and 2k + 1, lower or upper half of the columns
  for (int k = 0; k < 4; ++k) {
    auto a = hn::LoadU(d16, rows + 2 * k * stride);
    auto b = hn::LoadU(d16, rows + (2 * k + 1) * stride);
    pairs[2 * k] = hn::BitCast(d32, hn::InterleaveLower(d16, a, b));
    pairs[2 * k + 1] = hn::BitCast(d32, hn::InterleaveUpper(d16, a, b));
  }
  for (int h = 0; h < 2; ++h) {
    auto low_a = hn::BitCast(d64, hn::InterleaveLower(d32, pairs[h], pairs[2 + h]));
    auto high_a = hn::BitCast(d64, hn::InterleaveUpper(d32, pairs[h], pairs[2 + h]));
    auto low_b = hn::BitCast(d64, hn::InterleaveLower(d32, pairs[4 + h], pairs[6 + h]));
    auto high_b = hn::BitCast(d64, hn::InterleaveUpper(d32, pairs[4 + h], pairs[6 + h]));
    uint16_t* to = buffer + 4 * h * kTile<uint16_t>;
    hn::StoreU(hn::BitCast(d16, hn::InterleaveLower(d64, low_a, low_b)), d16, to);
    hn::StoreU(hn::BitCast(d16, hn::InterleaveUpper(d64, low_a, low_b)), d16, to + kTile<uint16_t>);
    hn::StoreU(hn::BitCast(d16, hn::InterleaveLower(d64, high_a, high_b)), d16,
               to + 2 * kTile<uint16_t>);
    hn::StoreU(hn::BitCast(d16, hn::InterleaveUpper(d64, high_a, high_b)), d16,
               to + 3 * kTile<uint16_t>);
  }
}
HWY_INLINE void transpose_square(const Float16* rows, int64_t stride, Float16* buffer) {
  transpose_square(bits_at(rows), stride, bits_at(buffer));
}
#endif

// buffer[i][j] = from[i + j stride] for i below `across`, j below `inner`, both at most kTile.
// Meanwhile the tile at `next` is prefetched into L2: its strided rows are too many for the
// hardware prefetcher to follow, and if the stride is a power of two they share a few sets of L1.
template <typename From>
HWY_INLINE void transpose_tile(const From* from,
                               [[maybe_unused]] const From* next,
                               int64_t stride,
                               int64_t across,
                               int64_t inner,
                               From* buffer) {
  int64_t done = 0;  // columns of the buffer
#if HWY_TARGET != HWY_SCALAR
  constexpr int64_t kSide = 16 / static_cast<int64_t>(sizeof(From));
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(From));
  if (across == kTile<From>) {
    for (; done + kSide <= inner; done += kSide) {
      const From* rows = from + done * stride;
      for (int64_t j = done; j < done + kSide; ++j) {
        for (int64_t i = 0; i < kTile<From>; i += kLine) prefetch_to_l2(next + j * stride + i);
      }
      for (int64_t i = 0; i < kTile<From>; i += kSide) {
        transpose_square(rows + i, stride, buffer + i * kTile<From> + done);
      }
    }
  }
#endif
  for (int64_t j = done; j < inner; ++j) {
    for (int64_t i = 0; i < across; ++i) buffer[i * kTile<From> + j] = from[i + j * stride];
  }
}

// Prefetches two lines of a target row for writing: stores through the caches read the lines first.
template <typename To>
HWY_INLINE void prefetch_to_write(const To* row) {
  __builtin_prefetch(row, 1, 2);
  __builtin_prefetch(row + 64 / sizeof(To), 1, 2);
}

// The position of each tile. Tiles are counted within bands of kBand tiles across, along the band's
// row blocks, so that the pages of a band's target rows are still in the TLB when the next one
// writes to them.
template <typename From>
struct TileOrder {
  int64_t across_tiles;
  int64_t inner_tiles;

  explicit TileOrder(const CopyPlan& plan)
      : across_tiles(pieces(plan.across, kTile<From>)),
        inner_tiles(pieces(plan.inner, kTile<From>)) {}

  int64_t count() const { return across_tiles * inner_tiles; }
  void origin(int64_t tile, int64_t& i, int64_t& j) const {
    const int64_t band = tile / (kBand * inner_tiles);
    const int64_t within = tile - band * kBand * inner_tiles;
    const int64_t width = HWY_MIN(kBand, across_tiles - band * kBand);
    i = (band * kBand + within % width) * kTile<From>;
    j = within / width * kTile<From>;
  }
};

// Mapping: tiles in static ranges over threads. A tile passes through a buffer in L1, so that both
// sides move whole cache lines. Bound: memory, as for runs.
template <typename From, typename To>
HWY_INLINE void copy_tiles(const PlannedCopy<From, To>& call, Range units) {
  const CopyPlan& plan = call.plan;
  const TileOrder<From> order(plan);
  HWY_ALIGN From buffer[kTile<From> * kTile<From>];
  OuterPosition position(plan, units.begin / order.count());
  int64_t tile = units.begin % order.count();
  int64_t i = 0, j = 0, next_i = 0, next_j = 0;
  order.origin(tile, i, j);
  for (int64_t unit = units.begin; unit < units.end; ++unit) {
    const bool last = ++tile == order.count();
    order.origin(last ? 0 : tile, next_i, next_j);
    const int64_t across = HWY_MIN(kTile<From>, plan.across - i);
    const int64_t inner = HWY_MIN(kTile<From>, plan.inner - j);
    const From* source = call.source + position.source();
    To* to = call.target + position.target() + i * plan.across_target + j;
    const To* next_to = call.target + position.target() + next_i * plan.across_target + next_j;
    transpose_tile(source + i + j * plan.inner_source, source + next_i + next_j * plan.inner_source,
                   plan.inner_source, across, inner, buffer);
    for (int64_t row = 0; row < across; ++row) {
      To* line = to + row * plan.across_target;
      const bool streamed = call.large && is_aligned(line);
      if (!streamed) prefetch_to_write(next_to + row * plan.across_target);
      copy_run(buffer + row * kTile<From>, line, inner, call.accumulate, streamed);
    }
    i = next_i;
    j = next_j;
    if (last) {
      tile = 0;
      position.advance();
    }
  }
  if (call.large) hwy::FlushStream();
}

template <typename From, typename To>
HWY_INLINE void copy_element(From from, To& to, bool accumulate) {
  if constexpr (std::is_same_v<From, To>) {
    if (!accumulate) {
      to = from;
      return;
    }
  }
  narrow_to(accumulate ? widened(to) + widened(from) : widened(from), to);
}

// Mapping: outer indices in static ranges over threads. Bound: one cache line per element in the
// worst case.
template <typename From, typename To>
HWY_INLINE void copy_elements(const PlannedCopy<From, To>& call, Range units) {
  const CopyPlan& plan = call.plan;
  OuterPosition position(plan, units.begin);
  for (int64_t unit = units.begin; unit < units.end; ++unit) {
    const From* from = call.source + position.source();
    To* to = call.target + position.target();
    for (int64_t j = 0; j < plan.inner; ++j) {
      copy_element(from[j * plan.inner_source], to[j * plan.inner_target], call.accumulate);
    }
    position.advance();
  }
}

template <typename From, typename To>
HWY_INLINE void copy_units(const PlannedCopy<From, To>& call, Range units) {
  switch (call.plan.path) {
    case CopyPath::kRuns:
    case CopyPath::kRepeat:
      copy_runs(call, units);
      break;
    case CopyPath::kTranspose:
      copy_tiles(call, units);
      break;
    case CopyPath::kScalar:
      copy_elements(call, units);
      break;
  }
}
RIDGE_TARGETS(RIDGE_PAIRS, copy_units, PlannedCopy, Range)

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {
namespace {

int64_t unit_count(const CopyPlan& plan, int64_t tile) {
  switch (plan.path) {
    case CopyPath::kRuns:
    case CopyPath::kRepeat:
      return plan.outer_count * pieces(plan.inner, kRunPiece);
    case CopyPath::kTranspose:
      return plan.outer_count * pieces(plan.across, tile) * pieces(plan.inner, tile);
    case CopyPath::kScalar:
      return plan.outer_count;
  }
  return 0;
}

}  // namespace

RIDGE_DISPATCH(RIDGE_PAIRS, run_range, copy_units, PlannedCopy, Range)
template <typename From, typename To>
void copy(const Copy<From, To>& call) {
  const CopyPlan plan = plan_copy(call.layout);
  if (plan.elements == 0) return;
  const bool large = bytes_of<To>(plan.elements) >= kStreamBytes;
  const PlannedCopy<From, To> planned{plan, call.source, call.target, call.accumulate,
                                      large && !call.accumulate};
  const int64_t bytes = bytes_of<From>(plan.elements) + bytes_of<To>(plan.elements);
  for_each_range(unit_count(plan, kTile<From>), parts_for(bytes),
                 [&](Range range) { run_range(planned, range); });
}
RIDGE_INSTANCES(RIDGE_PAIRS, void, copy, Copy)

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
