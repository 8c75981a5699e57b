// SPDX-License-Identifier: Apache-2.0
// Whether the rows of a norm are whole vectors of 16 bytes.
#pragma once

#include "backends/cuda/kernels/vector_io.cuh"
#include "backends/kernels/rms_norm.h"

namespace ridge::backends::cuda {

// Operands that are absent are vectors.
template <typename T>
bool takes_vectors(const AddRmsNorm<T>& call) {
  constexpr int kVector = kVectorOf<T>;
  const RmsNorm<T>& norm = call.norm;
  return norm.width % kVector == 0 && takes_vectors<kVector>(norm.x) &&
         takes_vectors<kVector>(norm.y) && takes_vectors<kVector>(norm.weight) &&
         takes_vectors<kVector>(call.residual) && takes_vectors<kVector>(call.sum);
}

}  // namespace ridge::backends::cuda
