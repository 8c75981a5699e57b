// SPDX-License-Identifier: Apache-2.0
// Highway's dispatch of a kernel's inner loop that is a template of the element type. Highway makes
// tables of functions, not of templates, so each type needs a name of its own: these macros give
// the names, and make one overloaded function of them again. Not the loops. And the instances of
// the kernels themselves.
//
//   per target:  template <typename T> void glu_rows(const Glu<T>& call, Range range) { ... }
//                RIDGE_TYPED_TARGETS(glu_rows, Glu, Range)
//   once:        RIDGE_TYPED_DISPATCH(run_range, glu_rows, Glu, Range)
//                run_range(call, range) is then the best target's loop for fp32 or bf16.
//                template <typename T> void glu(const Glu<T>& call) { ... }
//                RIDGE_TYPED_INSTANCES(void, glu, Glu)
#pragma once

#include <cstdint>

// The last arguments are the call's element types.
#define RIDGE_ONE_TARGET(loop, suffix, Call, Where, ...) \
  void loop##suffix(const Call<__VA_ARGS__>& call, Where where) { loop(call, where); }

#define RIDGE_ONE_DISPATCH(run, function, Call, Where, ...)     \
  HWY_EXPORT(function);                                         \
  static void run(const Call<__VA_ARGS__>& call, Where where) { \
    HWY_DYNAMIC_DISPATCH(function)(call, where);                \
  }

// Of a call of one element type.
#define RIDGE_TYPED_TARGETS(loop, Call, Where)     \
  RIDGE_ONE_TARGET(loop, _f32, Call, Where, float) \
  RIDGE_ONE_TARGET(loop, _bf16, Call, Where, uint16_t)

#define RIDGE_TYPED_DISPATCH(run, loop, Call, Where)      \
  RIDGE_ONE_DISPATCH(run, loop##_f32, Call, Where, float) \
  RIDGE_ONE_DISPATCH(run, loop##_bf16, Call, Where, uint16_t)

#define RIDGE_TYPED_INSTANCES(Result, kernel, Call) \
  template Result kernel(const Call<float>&);       \
  template Result kernel(const Call<uint16_t>&);

// Of a call of two element types.
#define RIDGE_PAIR_TARGETS(loop, Call, Where)                     \
  RIDGE_ONE_TARGET(loop, _f32_f32, Call, Where, float, float)     \
  RIDGE_ONE_TARGET(loop, _f32_bf16, Call, Where, float, uint16_t) \
  RIDGE_ONE_TARGET(loop, _bf16_f32, Call, Where, uint16_t, float) \
  RIDGE_ONE_TARGET(loop, _bf16_bf16, Call, Where, uint16_t, uint16_t)

#define RIDGE_PAIR_DISPATCH(run, loop, Call, Where)                      \
  RIDGE_ONE_DISPATCH(run, loop##_f32_f32, Call, Where, float, float)     \
  RIDGE_ONE_DISPATCH(run, loop##_f32_bf16, Call, Where, float, uint16_t) \
  RIDGE_ONE_DISPATCH(run, loop##_bf16_f32, Call, Where, uint16_t, float) \
  RIDGE_ONE_DISPATCH(run, loop##_bf16_bf16, Call, Where, uint16_t, uint16_t)

#define RIDGE_PAIR_INSTANCES(Result, kernel, Call)      \
  template Result kernel(const Call<float, float>&);    \
  template Result kernel(const Call<float, uint16_t>&); \
  template Result kernel(const Call<uint16_t, float>&); \
  template Result kernel(const Call<uint16_t, uint16_t>&);
