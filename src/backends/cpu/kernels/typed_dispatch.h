// SPDX-License-Identifier: Apache-2.0
// Dispatches a kernel's inner loop, a template of the element type, with Highway. Highway makes
// tables of functions and not of templates, so each element type needs a function of its own. These
// macros define those functions, join them in one overloaded function again, and instantiate the
// kernel.
//
//   per target:  template <typename T> void glu_rows(const Glu<T>& call, Range range) { ... }
//                RIDGE_TYPED_TARGETS(glu_rows, Glu, Range)
//   once:        RIDGE_TYPED_DISPATCH(run_range, glu_rows, Glu, Range)
//                run_range(call, range) is then the best target's loop for the call's type.
//                template <typename T> void glu(const Glu<T>& call) { ... }
//                RIDGE_TYPED_INSTANCES(void, glu, Glu)
#pragma once

#include <cstdint>

#include "base/float16.h"

// The last arguments are the call's element types.
#define RIDGE_ONE_TARGET(loop, suffix, Call, Where, ...) \
  void loop##suffix(const Call<__VA_ARGS__>& call, Where where) { loop(call, where); }

#define RIDGE_ONE_DISPATCH(run, function, Call, Where, ...)     \
  HWY_EXPORT(function);                                         \
  static void run(const Call<__VA_ARGS__>& call, Where where) { \
    HWY_DYNAMIC_DISPATCH(function)(call, where);                \
  }

// Calls of one element type.
#define RIDGE_TYPED_TARGETS(loop, Call, Where)         \
  RIDGE_ONE_TARGET(loop, _f32, Call, Where, float)     \
  RIDGE_ONE_TARGET(loop, _bf16, Call, Where, uint16_t) \
  RIDGE_ONE_TARGET(loop, _f16, Call, Where, Float16)

#define RIDGE_TYPED_DISPATCH(run, loop, Call, Where)          \
  RIDGE_ONE_DISPATCH(run, loop##_f32, Call, Where, float)     \
  RIDGE_ONE_DISPATCH(run, loop##_bf16, Call, Where, uint16_t) \
  RIDGE_ONE_DISPATCH(run, loop##_f16, Call, Where, Float16)

#define RIDGE_TYPED_INSTANCES(Result, kernel, Call) \
  template Result kernel(const Call<float>&);       \
  template Result kernel(const Call<uint16_t>&);    \
  template Result kernel(const Call<Float16>&);

// A whole kernel of independent rows: splits call.rows among the threads, where a row reads and
// writes `elements` elements of T. Needs partition.h.
#define RIDGE_TYPED_ROWS(kernel, loop, Call, rows, elements)           \
  RIDGE_TYPED_DISPATCH(kernel##_range, loop, Call, Range)              \
  template <typename T>                                                \
  void kernel(const Call<T>& call) {                                   \
    const int64_t bytes = bytes_of<T>(call.rows * (elements));         \
    for_each_range(call.rows, parts_for(bytes),                        \
                   [&](Range range) { kernel##_range(call, range); }); \
  }                                                                    \
  RIDGE_TYPED_INSTANCES(void, kernel, Call)

// Calls of two element types.
#define RIDGE_PAIR_TARGETS(loop, Call, Where)                         \
  RIDGE_ONE_TARGET(loop, _f32_f32, Call, Where, float, float)         \
  RIDGE_ONE_TARGET(loop, _f32_bf16, Call, Where, float, uint16_t)     \
  RIDGE_ONE_TARGET(loop, _bf16_f32, Call, Where, uint16_t, float)     \
  RIDGE_ONE_TARGET(loop, _bf16_bf16, Call, Where, uint16_t, uint16_t) \
  RIDGE_ONE_TARGET(loop, _f32_f16, Call, Where, float, Float16)       \
  RIDGE_ONE_TARGET(loop, _f16_f32, Call, Where, Float16, float)       \
  RIDGE_ONE_TARGET(loop, _f16_f16, Call, Where, Float16, Float16)     \
  RIDGE_ONE_TARGET(loop, _bf16_f16, Call, Where, uint16_t, Float16)   \
  RIDGE_ONE_TARGET(loop, _f16_bf16, Call, Where, Float16, uint16_t)

#define RIDGE_PAIR_DISPATCH(run, loop, Call, Where)                          \
  RIDGE_ONE_DISPATCH(run, loop##_f32_f32, Call, Where, float, float)         \
  RIDGE_ONE_DISPATCH(run, loop##_f32_bf16, Call, Where, float, uint16_t)     \
  RIDGE_ONE_DISPATCH(run, loop##_bf16_f32, Call, Where, uint16_t, float)     \
  RIDGE_ONE_DISPATCH(run, loop##_bf16_bf16, Call, Where, uint16_t, uint16_t) \
  RIDGE_ONE_DISPATCH(run, loop##_f32_f16, Call, Where, float, Float16)       \
  RIDGE_ONE_DISPATCH(run, loop##_f16_f32, Call, Where, Float16, float)       \
  RIDGE_ONE_DISPATCH(run, loop##_f16_f16, Call, Where, Float16, Float16)     \
  RIDGE_ONE_DISPATCH(run, loop##_bf16_f16, Call, Where, uint16_t, Float16)   \
  RIDGE_ONE_DISPATCH(run, loop##_f16_bf16, Call, Where, Float16, uint16_t)

#define RIDGE_PAIR_INSTANCES(Result, kernel, Call)         \
  template Result kernel(const Call<float, float>&);       \
  template Result kernel(const Call<float, uint16_t>&);    \
  template Result kernel(const Call<uint16_t, float>&);    \
  template Result kernel(const Call<uint16_t, uint16_t>&); \
  template Result kernel(const Call<float, Float16>&);     \
  template Result kernel(const Call<Float16, float>&);     \
  template Result kernel(const Call<Float16, Float16>&);   \
  template Result kernel(const Call<uint16_t, Float16>&);  \
  template Result kernel(const Call<Float16, uint16_t>&);
