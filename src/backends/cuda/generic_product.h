// SPDX-License-Identifier: Apache-2.0
// A dense product of any extents with cuBLASLt's first proposal or a native GEMM, on which rates
// are measured.
#pragma once

#include <cstddef>

#include "backends/backend.h"
#include "backends/cuda/device.h"
#include "backends/cuda/gemm.h"
#include "cost/ceilings.h"

namespace ridge::backends::cuda {

GemmShape generic_shape(const cost::ProductExtents& extents, cost::ProductForm form, DType dtype);

// Addresses of the matrices, at multiples of 256 bytes, and of a workspace of kGemmWorkspaceBytes.
struct ProductMemory {
  std::byte *a, *b, *c, *workspace;
};

// Launches on the device's stream. Throws a device Error if cuBLASLt has no kernel for the product.
Launch generic_product(const Device& device,
                       const GemmShape& shape,
                       Fp32Products fp32,
                       const ProductMemory& memory);

}  // namespace ridge::backends::cuda
