// SPDX-License-Identifier: Apache-2.0
// A bf16 weight times a few bf16 vectors, with sums in fp32. exact.cc has those of fp32 vectors.
#include "backends/cpu/kernels/quantized/gemv_bf16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/quantized/gemv_bf16.cc"
#include "backends/cpu/kernels/simd_targets.h"

#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/quantized/plain_rows-inl.h"
#include "backends/cpu/kernels/typed_dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

template <typename Y>
HWY_INLINE void bf16_rows(const GemvBf16<Y>& call, Range rows) {
  const PlainProduct<uint16_t, uint16_t, Y> product{call.weight, call.in, call.x, call.y, false};
  plain_rows(product, rows, call.tokens);
}
RIDGE_ONE_TARGET(bf16_rows, GemvBf16, Range, _f32, float)
RIDGE_ONE_TARGET(bf16_rows, GemvBf16, Range, _bf16, uint16_t)

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {

RIDGE_ONE_DISPATCH(run_rows, bf16_rows, GemvBf16, Range, _f32, float)
RIDGE_ONE_DISPATCH(run_rows, bf16_rows, GemvBf16, Range, _bf16, uint16_t)

template <typename Y>
void gemv_bf16(const GemvBf16<Y>& call) {
  for_each_range(call.out, parts_for(bytes_of<uint16_t>(call.out * call.in)),
                 [&](Range rows) { run_rows(call, rows); });
}
template void gemv_bf16(const GemvBf16<float>&);
template void gemv_bf16(const GemvBf16<uint16_t>&);

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
