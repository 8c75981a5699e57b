// SPDX-License-Identifier: Apache-2.0
// Compiles the search for affine grids for the instruction sets that it gains from. The same
// operations give the same bits on each: AVX2 has wider vectors, and FMA, which rounds differently,
// stays off.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "files/k_quants.h"
#include "files/k_quants_scale.h"

// Functions with vectors are inlined, so none is called with other registers than it expects.
#pragma GCC diagnostic ignored "-Wpsabi"
#define RIDGE_INLINE [[gnu::always_inline]] inline
// An operator of pairs of vectors, half by half.
#define RIDGE_PAIRWISE(OPERATOR, Operand, Result)                             \
  RIDGE_INLINE Result operator OPERATOR(const Operand& a, const Operand& b) { \
    return {a.low OPERATOR b.low, a.high OPERATOR b.high};                    \
  }

#if defined(__x86_64__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC target("avx2")
namespace ridge::files {
namespace avx2 {
namespace {
#include "files/k_quants_affine_search.h"
}  // namespace
}  // namespace avx2
}  // namespace ridge::files
#pragma GCC pop_options
#define RIDGE_HAS_AVX2 (__builtin_cpu_supports("avx2") != 0)
#endif

namespace ridge::files {
namespace baseline {
namespace {
#include "files/k_quants_affine_search.h"
}  // namespace
}  // namespace baseline

AffineFit fit_affine(const float* values, const AffineGrid& grid) {
#if defined(RIDGE_HAS_AVX2)
  static const bool has_avx2 = RIDGE_HAS_AVX2;
  if (has_avx2) return avx2::fit(values, grid);
#endif
  return baseline::fit(values, grid);
}

}  // namespace ridge::files
