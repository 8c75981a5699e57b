// SPDX-License-Identifier: Apache-2.0
// Dispatches a kernel's inner loop, a template of the element types, with Highway. Highway makes
// tables of functions and not of templates, so each list of types needs one of its own. These
// macros define those functions, join them in one overloaded function again, and instantiate the
// kernel, for the types of RIDGE_FLOATS, RIDGE_PAIRS or RIDGE_CACHES.
//
//   per target:  template <typename T> void glu_rows(const Glu<T>& call, Range range) { ... }
//                RIDGE_TARGETS(RIDGE_FLOATS, glu_rows, Glu, Range)
//   once:        RIDGE_DISPATCH(RIDGE_FLOATS, run_range, glu_rows, Glu, Range)
//                run_range(call, range) is then the best target's loop for the call's type.
//                template <typename T> void glu(const Glu<T>& call) { ... }
//                RIDGE_INSTANCES(RIDGE_FLOATS, void, glu, Glu)
#pragma once

#include <cstdint>

#include "base/float16.h"

// Calls of one element type.
#define RIDGE_FLOATS(ONE, ...)      \
  ONE(__VA_ARGS__, _f32, float)     \
  ONE(__VA_ARGS__, _bf16, uint16_t) \
  ONE(__VA_ARGS__, _f16, Float16)

// Calls of two element types.
#define RIDGE_PAIRS(ONE, ...)                      \
  ONE(__VA_ARGS__, _f32_f32, float, float)         \
  ONE(__VA_ARGS__, _f32_bf16, float, uint16_t)     \
  ONE(__VA_ARGS__, _f32_f16, float, Float16)       \
  ONE(__VA_ARGS__, _bf16_f32, uint16_t, float)     \
  ONE(__VA_ARGS__, _bf16_bf16, uint16_t, uint16_t) \
  ONE(__VA_ARGS__, _bf16_f16, uint16_t, Float16)   \
  ONE(__VA_ARGS__, _f16_f32, Float16, float)       \
  ONE(__VA_ARGS__, _f16_bf16, Float16, uint16_t)   \
  ONE(__VA_ARGS__, _f16_f16, Float16, Float16)

// Calls on a KV cache: the types of tokens and of the cache.
#define RIDGE_CACHES(ONE, ...)                    \
  ONE(__VA_ARGS__, _f32, float, float)            \
  ONE(__VA_ARGS__, _bf16, uint16_t, uint16_t)     \
  ONE(__VA_ARGS__, _f32_in_bf16, float, uint16_t) \
  ONE(__VA_ARGS__, _f32_in_i8, float, int8_t)

#define RIDGE_ONE_TARGET(loop, Call, Where, suffix, ...) \
  void loop##suffix(const Call<__VA_ARGS__>& call, Where where) { loop(call, where); }
#define RIDGE_ONE_DISPATCH(run, loop, Call, Where, suffix, ...) \
  HWY_EXPORT(loop##suffix);                                     \
  static void run(const Call<__VA_ARGS__>& call, Where where) { \
    HWY_DYNAMIC_DISPATCH(loop##suffix)(call, where);            \
  }
#define RIDGE_ONE_INSTANCE(Result, kernel, Call, suffix, ...) \
  template Result kernel(const Call<__VA_ARGS__>&);

#define RIDGE_TARGETS(TYPES, loop, Call, Where) TYPES(RIDGE_ONE_TARGET, loop, Call, Where)
#define RIDGE_DISPATCH(TYPES, run, loop, Call, Where) \
  TYPES(RIDGE_ONE_DISPATCH, run, loop, Call, Where)
#define RIDGE_INSTANCES(TYPES, Result, kernel, Call) TYPES(RIDGE_ONE_INSTANCE, Result, kernel, Call)

// A whole kernel of independent rows: splits call.rows among the threads, where a row reads and
// writes `elements` elements of T. Needs partition.h.
#define RIDGE_ROWS_KERNEL(kernel, loop, Call, rows, elements)          \
  RIDGE_DISPATCH(RIDGE_FLOATS, kernel##_range, loop, Call, Range)      \
  template <typename T>                                                \
  void kernel(const Call<T>& call) {                                   \
    const int64_t bytes = bytes_of<T>(call.rows * (elements));         \
    for_each_range(call.rows, parts_for(bytes),                        \
                   [&](Range range) { kernel##_range(call, range); }); \
  }                                                                    \
  RIDGE_INSTANCES(RIDGE_FLOATS, void, kernel, Call)
