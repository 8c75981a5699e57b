// SPDX-License-Identifier: Apache-2.0
// Per-target: products of query heads with keys, and weighted sums of values, over a run of
// neighboring cells of a KV cache. Cells are widened to fp32; int8_cells-inl.h multiplies quants as
// integers.
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "backends/cpu/kernels/cache/cached_attention.h"
#include "backends/cpu/kernels/partition.h"

#if defined(RIDGE_CPU_CELLS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_CPU_CELLS_INL_H_
#undef RIDGE_CPU_CELLS_INL_H_
#else
#define RIDGE_CPU_CELLS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Memory bounds these loops, so vectors longer than those of AVX2 would gain nothing.
using Octet = HWY_CAPPED(float, 8);
using VOctet = hn::Vec<Octet>;

HWY_INLINE VOctet load_cells(const float* from) { return hn::LoadU(Octet(), from); }
HWY_INLINE VOctet load_cells(const uint16_t* from) {
  const hn::Rebind<uint16_t, Octet> d16;
  const hn::Rebind<uint32_t, Octet> d32;
  return hn::BitCast(Octet(), hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, from))));
}
HWY_INLINE VOctet load_cells(const int8_t* from) {
  const hn::Rebind<int8_t, Octet> d8;
  const hn::Rebind<int32_t, Octet> d32;
  return hn::ConvertTo(Octet(), hn::PromoteTo(d32, hn::LoadU(d8, from)));
}
// The first `count` elements, with zeros behind them.
template <typename C>
HWY_INLINE VOctet load_cells(const C* from, int64_t count) {
  C buffer[8] = {};
  std::memcpy(buffer, from, static_cast<size_t>(count) * sizeof(C));
  return load_cells(buffer);
}

// Prefetched cells are read so much later, which is no multiple of 4 KiB: with one, heads of 256
// take half as long again. They go to L2, because L1 has few fills at a time. On two cores of an
// EPYC (Zen 4), 16 sequences of 192 keys come at 37 GB/s from scattered blocks of 16 and at 43 GB/s
// from one block each (4 KiB ahead in memory, to L1: 18 and 25). 6 and 14 KiB are as good.
inline constexpr int64_t kAheadBytes = 10 << 10;

// Neighboring elements of a cache.
template <typename C>
struct CellSpan {
  const C* begin = nullptr;
  const C* end = nullptr;

  HWY_INLINE void prefetch(int64_t from_bytes, int64_t to_bytes) const {
    const char* at = reinterpret_cast<const char*>(begin);
    for (int64_t byte = from_bytes; byte < to_bytes; byte += 64)
      __builtin_prefetch(at + byte, 0, 2);
  }
  HWY_INLINE int64_t bytes() const { return bytes_of<C>(end - begin); }
};

// These cells are read after others: `first` from byte `skip` on, then `second`. Another block goes
// on where one ends; behind it in memory lies another sequence's.
template <typename C>
struct AheadCells {
  CellSpan<C> first, second;
  int64_t skip = 0;

  // Prefetches what corresponds to bytes begin .. end - 1 of the cells themselves, in the order of
  // addresses: the hardware prefetcher then sees one stream.
  HWY_INLINE void prefetch(int64_t begin, int64_t end) const {
    const int64_t whole = first.bytes();
    first.prefetch(begin + skip, std::min(end + skip, whole));
    second.prefetch(std::max<int64_t>(begin + skip - whole, 0),
                    std::min(end + skip - whole, second.bytes()));
  }
};

// Neighboring cells: the rows [kv_heads, size] of each are `step` elements apart.
template <typename C>
struct CellRows {
  const C* first;
  int64_t count;
  int64_t step;
  int64_t kv_heads;
  int64_t size;
  AheadCells<C> ahead = {};

  HWY_INLINE CellRows(const Cache<const C>& cache, const CellRun& run)
      : first(cache.head(run.row, 0)),
        count(run.count),
        step(cache.kv_heads * cache.head_size),
        kv_heads(cache.kv_heads),
        size(cache.head_size) {}
  // Takes one KV head only.
  HWY_INLINE CellRows(const Cache<const C>& cache, const CellRun& run, int64_t kv_head)
      : CellRows(cache, run) {
    first += kv_head * size;
    kv_heads = 1;
  }
};

// Rows of query heads, `row` elements apart. Those of a KV head are neighbors: `group` rows, of
// which a kernel takes some.
template <typename X>
struct GroupRows {
  X* first;
  int64_t row;
  int64_t group;
  HWY_INLINE X* of(int64_t kv_head) const { return first + kv_head * group * row; }
};

// One KV head in four cells.
template <typename C>
struct FourCells {
  const C* at[kFourCells];
};

// Calls visit(cells, KV head, index of the first cell, their number) for four cells at a time. Of
// fewer cells, the last one is repeated.
template <typename C, typename Visit>
HWY_INLINE void for_each_four(const CellRows<C>& cells, const Visit& visit) {
  const C* cell = cells.first;
  int64_t j = 0;
  for (; j + kFourCells <= cells.count; j += kFourCells, cell += kFourCells * cells.step) {
    for (int64_t h = 0; h < cells.kv_heads; ++h) {
      const C* first = cell + h * cells.size;
      const FourCells<C> four{
          {first, first + cells.step, first + 2 * cells.step, first + 3 * cells.step}};
      const int64_t read = j * cells.step + h * kFourCells * cells.size;
      cells.ahead.prefetch(bytes_of<C>(read), bytes_of<C>(read + kFourCells * cells.size));
      visit(four, h, j, std::integral_constant<int, kFourCells>());
    }
  }
  const int64_t last = cells.count - j - 1;
  for (int64_t h = 0; last >= 0 && h < cells.kv_heads; ++h) {
    const C* first = cell + h * cells.size;
    visit(FourCells<C>{{first, first + std::min<int64_t>(last, 1) * cells.step,
                        first + last * cells.step, first + last * cells.step}},
          h, j, last + 1);
  }
}

#if HWY_TARGET != HWY_SCALAR
// Adds two vectors in each block of 128 bits: a0 + a2, b0 + b2, a1 + a3, b1 + b3.
template <class D>
HWY_INLINE hn::Vec<D> add_halves(D d, hn::Vec<D> a, hn::Vec<D> b) {
  return hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
}

// The sums of the lanes of four vectors, given as add_halves of the first two and of the others.
template <class D>
HWY_INLINE hn::Vec<hn::Half<D>> sums_of_four(D d, hn::Vec<D> ab, hn::Vec<D> cd) {
  const hn::RepartitionToWide<D> pairs;
  const auto x = hn::BitCast(pairs, ab), y = hn::BitCast(pairs, cd);
  const hn::Vec<D> sums = hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, x, y)),
                                  hn::BitCast(d, hn::InterleaveUpper(pairs, x, y)));
  const hn::Half<D> half;
  return hn::Add(hn::LowerHalf(half, sums), hn::UpperHalf(half, sums));
}
#endif

// Two cells of `size` elements each.
template <typename C>
struct CellPair {
  const C* first;
  const C* second;
  int64_t size;
};

// Adds the products of heads of q with two cells to a and b.
template <int kHeads, typename C>
HWY_INLINE void multiply_pair(StridedRows<const float> q,
                              CellPair<C> cells,
                              VOctet (&a)[kHeads],
                              VOctet (&b)[kHeads]) {
  const auto [first, second, size] = cells;
  const Octet d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int g = 0; g < kHeads; ++g) a[g] = b[g] = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    const VOctet k0 = load_cells(first + i), k1 = load_cells(second + i);
    for (int g = 0; g < kHeads; ++g) {
      const VOctet x = hn::LoadU(d, q[g] + i);
      a[g] = hn::MulAdd(x, k0, a[g]);
      b[g] = hn::MulAdd(x, k1, b[g]);
    }
  }
  if (i == size) return;
  const VOctet k0 = load_cells(first + i, size - i), k1 = load_cells(second + i, size - i);
  for (int g = 0; g < kHeads; ++g) {
    const VOctet x = hn::LoadU(d, q[g] + i);
    a[g] = hn::MulAdd(x, k0, a[g]);
    b[g] = hn::MulAdd(x, k1, b[g]);
  }
}

// scores of head g and cell j = q of head g . cell j, and up to 3 more scores. Rows of q are whole
// octets.
template <int kHeads, typename C>
HWY_NOINLINE void score_cells(CellRows<C> cells,
                              GroupRows<const float> q,
                              GroupRows<float> scores) {
  for_each_four(cells, [=](FourCells<C> keys, int64_t h, int64_t j, auto) HWY_ATTR {
    const float* x = q.of(h);
    float* to = scores.of(h) + j;
    VOctet a[kHeads], b[kHeads];
#if HWY_TARGET == HWY_SCALAR
    for (int half = 0; half < 2; ++half) {
      multiply_pair<kHeads, C>({x, q.row}, {keys.at[2 * half], keys.at[2 * half + 1], cells.size},
                               a, b);
      for (int g = 0; g < kHeads; ++g) {
        to[g * scores.row + 2 * half] = hn::GetLane(a[g]);
        to[g * scores.row + 2 * half + 1] = hn::GetLane(b[g]);
      }
    }
#else
    const Octet d;
    VOctet halves[kHeads];
    multiply_pair<kHeads, C>({x, q.row}, {keys.at[0], keys.at[1], cells.size}, a, b);
    for (int g = 0; g < kHeads; ++g) halves[g] = add_halves(d, a[g], b[g]);
    multiply_pair<kHeads, C>({x, q.row}, {keys.at[2], keys.at[3], cells.size}, a, b);
    for (int g = 0; g < kHeads; ++g)
      hn::StoreU(sums_of_four(d, halves[g], add_halves(d, a[g], b[g])), hn::Half<Octet>(),
                 to + g * scores.row);
#endif
  });
}

// Adds `count` weighted cells, one or two, to the sums of heads; `p` has the weights of the first.
template <int kHeads, typename C>
HWY_INLINE void mix_pair(StridedRows<const float> p,
                         int64_t count,
                         CellPair<C> cells,
                         StridedRows<float> sums) {
  const auto [first, second, size] = cells;
  const Octet d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  VOctet w0[kHeads], w1[kHeads];
  for (int g = 0; g < kHeads; ++g) {
    w0[g] = hn::Set(d, p[g][0]);
    w1[g] = hn::Set(d, count > 1 ? p[g][1] : 0.0f);
  }
  int64_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    const VOctet v0 = load_cells(first + i), v1 = load_cells(second + i);
    for (int g = 0; g < kHeads; ++g) {
      float* to = sums[g] + i;
      hn::StoreU(hn::MulAdd(w1[g], v1, hn::MulAdd(w0[g], v0, hn::LoadU(d, to))), d, to);
    }
  }
  if (i == size) return;
  const VOctet v0 = load_cells(first + i, size - i), v1 = load_cells(second + i, size - i);
  for (int g = 0; g < kHeads; ++g) {
    float* to = sums[g] + i;
    hn::StoreU(hn::MulAdd(w1[g], v1, hn::MulAdd(w0[g], v0, hn::LoadU(d, to))), d, to);
  }
}

// sums of head g += the sum over the cells j of p of head g and cell j times cell j, in this order.
// Rows of sums are whole octets.
template <int kHeads, typename C>
HWY_NOINLINE void mix_cells(CellRows<C> cells, GroupRows<const float> p, GroupRows<float> sums) {
  for_each_four(cells, [=](FourCells<C> values, int64_t h, int64_t j, auto count) HWY_ATTR {
    for (int64_t pair = 0; pair < count; pair += 2)
      mix_pair<kHeads, C>({p.of(h) + j + pair, p.row}, count - pair,
                          {values.at[pair], values.at[pair + 1], cells.size},
                          {sums.of(h), sums.row});
  });
}

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
