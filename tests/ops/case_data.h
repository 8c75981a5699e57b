// SPDX-License-Identifier: Apache-2.0
// Values for the ops' samples, drawn from a seed and already rounded to the sample's element type,
// so that a kernel and the double reference start from the same values.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "base/bf16.h"
#include "base/block_formats.h"
#include "base/error.h"
#include "base/random.h"
#include "graph/op.h"

namespace ridge::ops {

// The nearest value that the element type can represent.
inline double rounded(double value, DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<float>(value);
    case DType::kBF16:
      return bf16_to_float(float_to_bf16(static_cast<float>(value)));
    case DType::kF16:
      return f16_to_float(float_to_f16(static_cast<float>(value)));
    case DType::kI32:
      return static_cast<int32_t>(std::lround(value));
    case DType::kI8:  // as the caches' quants, without -128
      return std::clamp<double>(std::nearbyint(value), -127, 127) + 0.0;  // no -0
    case DType::kF8E4M3:
      return f8_e4m3_to_float(float_to_f8_e4m3(static_cast<float>(value)));
    default:
      return value;
  }
}

inline double draw_normal(Random& random) {
  double radius = std::sqrt(-2 * std::log(1 - static_cast<double>(random.uniform())));
  return radius * std::cos(2 * std::numbers::pi * static_cast<double>(random.uniform()));
}

// One in eight ids and labels is -1, "none", if the sample is large enough.
inline double draw_id(Random& random, double bound, size_t count) {
  if (count > 4 && random.below(8) == 0) return -1;
  return random.below(static_cast<uint32_t>(bound));
}

inline Tensor64 draw(const Type& type, const Fill& fill, Random& random) {
  Tensor64 tensor{type, std::vector<double>(static_cast<size_t>(type.shape.elements()))};
  for (size_t i = 0; i < tensor.data.size(); ++i) {
    double& value = tensor.data[i];
    switch (fill.kind) {
      case Fill::kNormal:
        value = fill.parameter * draw_normal(random);
        break;
      // Away from zero, where roots and quotients are smooth.
      case Fill::kPositive:
        value = 0.25 + std::abs(draw_normal(random));
        break;
      case Fill::kIds:
        value = draw_id(random, fill.parameter, tensor.data.size());
        break;
      case Fill::kPositions:
        value = std::fmod(static_cast<double>(i), fill.parameter);
        break;
      case Fill::kConstant:
        value = fill.parameter;
        break;
      case Fill::kDistinct:
        value = 0.5 * static_cast<double>(i) - 3;
        break;
    }
    value = rounded(value, type.dtype);
  }
  return tensor;
}

inline Tensor64 draw(const CaseInput& input, Random& random) {
  return draw(input.type, input.fill, random);
}

}  // namespace ridge::ops
