// SPDX-License-Identifier: Apache-2.0
// Dispatches kernels on a KV cache, templates of the types of tokens and of the cache. Used as
// typed_dispatch.h describes for one type.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/typed_dispatch.h"

#define RIDGE_CACHE_TARGETS(loop, Call, Where)                       \
  RIDGE_ONE_TARGET(loop, _f32, Call, Where, float, float)            \
  RIDGE_ONE_TARGET(loop, _bf16, Call, Where, uint16_t, uint16_t)     \
  RIDGE_ONE_TARGET(loop, _f32_in_bf16, Call, Where, float, uint16_t) \
  RIDGE_ONE_TARGET(loop, _f32_in_i8, Call, Where, float, int8_t)

#define RIDGE_CACHE_DISPATCH(run, loop, Call, Where)                        \
  RIDGE_ONE_DISPATCH(run, loop##_f32, Call, Where, float, float)            \
  RIDGE_ONE_DISPATCH(run, loop##_bf16, Call, Where, uint16_t, uint16_t)     \
  RIDGE_ONE_DISPATCH(run, loop##_f32_in_bf16, Call, Where, float, uint16_t) \
  RIDGE_ONE_DISPATCH(run, loop##_f32_in_i8, Call, Where, float, int8_t)

#define RIDGE_CACHE_INSTANCES(Result, kernel, Call)        \
  template Result kernel(const Call<float, float>&);       \
  template Result kernel(const Call<uint16_t, uint16_t>&); \
  template Result kernel(const Call<float, uint16_t>&);    \
  template Result kernel(const Call<float, int8_t>&);
