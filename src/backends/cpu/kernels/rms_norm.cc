// SPDX-License-Identifier: Apache-2.0
// RMSNorm: one row at a time, with two passes over the row while it is in L1 or L2.
#include "backends/cpu/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/rms_norm.cc"
#include "backends/cpu/kernels/simd_targets.h"

#include <cmath>

#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/typed_dispatch.h"
#include "backends/cpu/kernels/vector_io-inl.h"

#ifndef RIDGE_CPU_RMS_NORM_BACKWARD_PART_
#define RIDGE_CPU_RMS_NORM_BACKWARD_PART_
namespace ridge::backends::cpu {

struct BackwardPart {
  Range rows;
  float* d_weight;  // [D], the contribution of these rows
};

}  // namespace ridge::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

// 1 / sqrt(mean square + eps) of a row.
template <typename T>
HWY_INLINE float row_rstd(const T* x, int64_t width, float eps) {
  return 1.0f / std::sqrt(row_sum_squares(x, width) / static_cast<float>(width) + eps);
}

// y = x rstd (offset + weight).
template <typename T>
HWY_INLINE void scale_row(const T* x,
                          const RmsNorm<T>& call,
                          float rstd,
                          T* y,
                          bool streamed,
                          const NextRows<T, 1>& next) {
  const F32 d;
  const V32 scale = hn::Set(d, rstd);
  const V32 offset = hn::Set(d, call.weight_offset);
  const float* weight = call.weight;
  for_lanes(call.width, [&](auto part, int64_t i) HWY_ATTR {
    next.prefetch(i);
    V32 w = hn::Add(load(part, weight + i), offset);
    store(part, hn::Mul(hn::Mul(load(part, x + i), scale), w), y + i, streamed);
  });
}

template <typename T>
HWY_INLINE void add_rows(const T* x, const T* residual, int64_t width, T* sum, bool streamed) {
  for_lanes(width, [&](auto part, int64_t i) HWY_ATTR {
    store(part, hn::Add(load(part, x + i), load(part, residual + i)), sum + i, streamed);
  });
}

// Mapping: rows in static ranges over threads; per row one reduction, then one scaling pass from
// cache. Bound: memory, (reads + writes) N D sizeof(T): 1 + 1, or 2 + 2 with an add before the
// norm. Without an add, `residual` and `sum` are absent.
template <typename T>
HWY_INLINE void norm_rows(const AddRmsNorm<T>& given, Range range) {
  const RmsNorm<T>& call = given.norm;
  const bool large = bytes_of<T>(call.tokens * call.width) >= kStreamBytes;
  for (int64_t n = range.begin; n < range.end; ++n) {
    const T* x = call.x[n];
    if (given.sum) {
      // The sum stays in cache for the two passes after it, so it is not streamed.
      add_rows(x, given.residual[n], call.width, given.sum[n], false);
      x = given.sum[n];
    }
    const float rstd = row_rstd(x, call.width, call.eps);
    if (call.rstd != nullptr) call.rstd[n] = rstd;
    T* y = call.y[n];
    const auto next = rows_after(n, range, call.tokens, call.width, call.x);
    scale_row(x, call, rstd, y, large && y != x && is_aligned(y), next);
  }
  if (large) hwy::FlushStream();
}
RIDGE_TARGETS(RIDGE_FLOATS, norm_rows, AddRmsNorm, Range)

// Mapping: rows in static ranges; each part adds its rows' d_weight to its own partial sum, in row
// order. With g = dy (offset + weight) and xhat = x rstd: dx = rstd (g - xhat mean(g xhat)),
// d_weight = sum dy xhat. Bound: memory, (2 or 3 reads + 1 write) N D sizeof(T); the partial sums
// stay in L1 or L2.
template <typename T>
HWY_INLINE void norm_backward_rows(const RmsNormBackward<T>& call, const BackwardPart& task) {
  const F32 d;
  const Range range = task.rows;
  float* d_weight = task.d_weight;
  const bool large = bytes_of<T>(call.tokens * call.width) >= kStreamBytes;
  const V32 offset = hn::Set(d, call.weight_offset);
  const float* weight = call.weight;
  for_lanes(call.width,
            [&](auto part, int64_t i) HWY_ATTR { store(part, hn::Zero(d), d_weight + i); });
  for (int64_t n = range.begin; n < range.end; ++n) {
    const T* dy = call.dy[n];
    const T* x = call.x[n];
    const T* more = call.d_residual ? call.d_residual[n] : nullptr;
    T* dx = call.dx[n];
    const bool streamed = large && dx != dy && dx != more && is_aligned(dx);
    const V32 rstd = hn::Set(d, call.rstd[n]);
    const float dot = sum_lanes(call.width, [&](auto part, int64_t i, V32& total) HWY_ATTR {
      V32 g = hn::Mul(load(part, dy + i), hn::Add(load(part, weight + i), offset));
      total = hn::MulAdd(g, hn::Mul(load(part, x + i), rstd), total);
    });
    const V32 mean = hn::Set(d, dot / static_cast<float>(call.width));
    const auto next =
        rows_after(n, range, call.tokens, call.width, call.dy, call.x, call.d_residual);
    for_lanes(call.width, [&](auto part, int64_t i) HWY_ATTR {
      next.prefetch(i);
      V32 given = load(part, dy + i);
      V32 xhat = hn::Mul(load(part, x + i), rstd);
      V32 g = hn::Mul(given, hn::Add(load(part, weight + i), offset));
      V32 v = hn::Mul(rstd, hn::NegMulAdd(xhat, mean, g));
      if (more != nullptr) v = hn::Add(v, load(part, more + i));
      store(part, v, dx + i, streamed);
      store(part, hn::MulAdd(given, xhat, load(part, d_weight + i)), d_weight + i);
    });
  }
  if (large) hwy::FlushStream();
}
RIDGE_TARGETS(RIDGE_FLOATS, norm_backward_rows, RmsNormBackward, const BackwardPart&)

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {
namespace {

// For the smallest T, two bytes per element: parts, and with them the workspace, must not depend on
// T.
int64_t backward_parts(int64_t tokens, int64_t width) { return parts_for(6 * tokens * width); }

}  // namespace

template <typename T>
void rms_norm(const RmsNorm<T>& call) {
  add_rms_norm(AddRmsNorm<T>{call, {}, {}});
}
RIDGE_INSTANCES(RIDGE_FLOATS, void, rms_norm, RmsNorm)

RIDGE_DISPATCH(RIDGE_FLOATS, run_range, norm_rows, AddRmsNorm, Range)
template <typename T>
void add_rms_norm(const AddRmsNorm<T>& call) {
  const int64_t tokens = call.norm.tokens, operands = call.sum ? 4 : 2;
  const int64_t bytes = bytes_of<T>(operands * tokens * call.norm.width);
  for_each_range(tokens, parts_for(bytes), [&](Range range) { run_range(call, range); });
}
RIDGE_INSTANCES(RIDGE_FLOATS, void, add_rms_norm, AddRmsNorm)

int64_t rms_norm_backward_workspace_bytes(int64_t tokens, int64_t width) {
  return bytes_of<float>(backward_parts(tokens, width) * width);
}

RIDGE_DISPATCH(RIDGE_FLOATS, run_part, norm_backward_rows, RmsNormBackward, const BackwardPart&)
template <typename T>
void rms_norm_backward(const RmsNormBackward<T>& call) {
  const int64_t parts = backward_parts(call.tokens, call.width);
  for_each_part(parts, [&](int64_t index) {
    run_part(call, {part_of(call.tokens, parts, index), call.workspace + index * call.width});
  });
  for (int64_t i = 0; i < call.width; ++i) {
    float total = call.workspace[i];
    for (int64_t p = 1; p < parts; ++p) total += call.workspace[p * call.width + i];
    call.d_weight[i] = total;
  }
}
RIDGE_INSTANCES(RIDGE_FLOATS, void, rms_norm_backward, RmsNormBackward)

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
