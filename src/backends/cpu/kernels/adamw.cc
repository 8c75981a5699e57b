// SPDX-License-Identifier: Apache-2.0
// AdamW, for a list of tensors. The update is pointwise, so the result does not depend on how
// elements are split among threads.
#include "backends/cpu/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/adamw.cc"
#include "backends/cpu/kernels/simd_targets.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/vector_io-inl.h"

#ifndef RIDGE_CPU_ADAMW_SCALARS_
#define RIDGE_CPU_ADAMW_SCALARS_
namespace ridge::backends::cpu {

// The step's constants, computed once in double.
struct AdamwScalars {
  float keep;  // 1 - lr weight_decay
  float to_m;  // 1 - beta1
  float beta2;
  float to_v;  // 1 - beta2
  float root;  // sqrt(1 - beta2^step)
  float eps;
  float step_size;  // lr / (1 - beta1^step)
  float grad_scale;
};

}  // namespace ridge::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

// Bound: memory. Per element, 16 bytes are read (14 with 16-bit gradients) and 12 written (14 with
// a 16-bit copy). The square root and two divisions take less time than one thread's memory
// traffic.
template <typename Gradient, typename Copy>
HWY_INLINE void update_range(const AdamwTensor& tensor,
                             const Gradient* gradients,
                             Copy* copies,
                             const AdamwScalars& scalars,
                             Range range) {
  const F32 d;
  const V32 keep = hn::Set(d, scalars.keep);
  const V32 to_m = hn::Set(d, scalars.to_m);
  const V32 beta2 = hn::Set(d, scalars.beta2);
  const V32 to_v = hn::Set(d, scalars.to_v);
  const V32 root = hn::Set(d, scalars.root);
  const V32 eps = hn::Set(d, scalars.eps);
  const V32 step_size = hn::Set(d, scalars.step_size);
  const V32 grad_scale = hn::Set(d, scalars.grad_scale);
  float* parameter = tensor.parameter + range.begin;
  const Gradient* gradient = gradients + range.begin;
  float* m_at = tensor.m + range.begin;
  float* v_at = tensor.v + range.begin;
  Copy* copy = copies == nullptr ? nullptr : copies + range.begin;
  for_lanes(range.end - range.begin, [&](auto part, int64_t i) HWY_ATTR {
    V32 g = hn::Mul(load(part, gradient + i), grad_scale);
    V32 m = load(part, m_at + i);
    m = hn::MulAdd(to_m, hn::Sub(g, m), m);
    V32 v = hn::MulAdd(hn::Mul(g, g), to_v, hn::Mul(load(part, v_at + i), beta2));
    V32 denominator = hn::Add(hn::Div(hn::Sqrt(v), root), eps);
    V32 p = hn::Mul(load(part, parameter + i), keep);
    p = hn::Sub(p, hn::Div(hn::Mul(step_size, m), denominator));
    store(part, m, m_at + i);
    store(part, v, v_at + i);
    store(part, p, parameter + i);
    if (copy != nullptr) store(part, p, copy + i);
  });
}

template <typename Gradient>
HWY_INLINE void update_from(const AdamwTensor& tensor,
                            const Gradient* gradients,
                            const AdamwScalars& scalars,
                            Range range) {
  if (tensor.f16_parameter != nullptr)
    update_range(tensor, gradients, tensor.f16_parameter, scalars, range);
  else
    update_range(tensor, gradients, tensor.bf16_parameter, scalars, range);
}

void update(const AdamwTensor& tensor, const AdamwScalars& scalars, Range range) {
  if (tensor.gradient != nullptr)
    update_from(tensor, tensor.gradient, scalars, range);
  else if (tensor.f16_gradient != nullptr)
    update_from(tensor, tensor.f16_gradient, scalars, range);
  else
    update_from(tensor, tensor.bf16_gradient, scalars, range);
}

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {
namespace {

AdamwScalars scalars_of(const AdamwStep& step, double weight_decay) {
  const double rate = *step.learning_rate, count = *step.step;
  const double correction1 = 1.0 - std::pow(step.beta1, count);
  const double correction2 = 1.0 - std::pow(step.beta2, count);
  return {.keep = static_cast<float>(1.0 - rate * weight_decay),
          .to_m = static_cast<float>(1.0 - step.beta1),
          .beta2 = static_cast<float>(step.beta2),
          .to_v = static_cast<float>(1.0 - step.beta2),
          .root = static_cast<float>(std::sqrt(correction2)),
          .eps = static_cast<float>(step.eps),
          .step_size = static_cast<float>(rate / correction1),
          .grad_scale = step.gradient_scale == nullptr ? 1.0f : *step.gradient_scale};
}

}  // namespace

HWY_EXPORT(update);
// Mapping: the tensors, laid end to end, are cut into equal parts of whole cache lines, one per
// thread; a part updates the pieces of tensors that it covers.
void adamw_multi(std::span<const AdamwTensor> tensors, const AdamwStep& step) {
  constexpr int64_t kLine = 32;  // elements: a cache line of 16-bit copies
  constexpr int64_t kBytesPerElement = 28;
  if (step.gradient_scale != nullptr && *step.gradient_scale < 0) return;
  int64_t total = 0;
  for (const AdamwTensor& tensor : tensors) total += tensor.elements;
  const int64_t parts = parts_for(total * kBytesPerElement);
  for_each_part(parts, [&](int64_t index) {
    const Range part = part_of(total, parts, index, kLine);
    int64_t first = 0;  // the tensor's first element among all elements
    for (const AdamwTensor& tensor : tensors) {
      const Range piece{std::clamp<int64_t>(part.begin - first, 0, tensor.elements),
                        std::clamp<int64_t>(part.end - first, 0, tensor.elements)};
      if (piece.begin < piece.end)
        HWY_DYNAMIC_DISPATCH(update)(tensor, scalars_of(step, tensor.weight_decay), piece);
      first += tensor.elements;
    }
  });
}

void clip_coefficient(const ClipCoefficient& call) {
  const double norm = std::sqrt(static_cast<double>(*call.sum_squares));
  *call.coefficient = static_cast<float>(std::min(1.0, call.max_norm / (norm + call.norm_epsilon)));
}

void loss_scale(const LossScale& call) {
  const double squares = *call.sum_squares, scale = *call.scale, good = *call.good_steps + 1.0;
  const bool overflows = !std::isfinite(squares);
  const bool grows = !overflows && good >= static_cast<double>(call.growth_interval);
  const double norm = std::sqrt(squares) / scale;
  const double clip =
      call.max_norm > 0 ? std::min(1.0, call.max_norm / (norm + call.norm_epsilon)) : 1.0;
  if (overflows) *call.skipped_steps += 1;
  if (overflows) *call.scale = static_cast<float>(std::max(scale / 2, call.least_scale));
  if (grows) *call.scale = static_cast<float>(std::min(scale * 2, call.most_scale));
  *call.good_steps = overflows || grows ? 0.0f : static_cast<float>(good);
  *call.factor = overflows ? -1.0f : static_cast<float>(clip / scale);
  *call.updates = *call.step - *call.skipped_steps;
  *call.squared_norm = static_cast<float>(norm * norm);
}

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
