// SPDX-License-Identifier: Apache-2.0
// A product of any extents through cuBLASLt by its first guess, dense: what rates are measured on.
#pragma once

#include <cstddef>

#include "backends/backend.h"
#include "backends/cuda/device.h"
#include "backends/cuda/gemm.h"
#include "cost/ceilings.h"

namespace ridge::backends::cuda {

GemmShape generic_shape(const cost::ProductExtents& extents, cost::ProductForm form, DType dtype);

// Where its matrices lie, at multiples of 256 bytes, and kGemmWorkspaceBytes besides.
struct ProductMemory {
  std::byte *a, *b, *c, *workspace;
};

// On the device's stream. Throws a device Error where cuBLASLt has no kernel for it.
Launch generic_product(const Device& device,
                       const GemmShape& shape,
                       Fp32Products fp32,
                       const ProductMemory& memory);

}  // namespace ridge::backends::cuda
