// SPDX-License-Identifier: Apache-2.0
// A dense product of any extents with cuBLASLt's proposals or a native GEMM, on which rates are
// measured.
#pragma once

#include <cstddef>
#include <vector>

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

// Launches on the device's stream, the likely fastest first: at least one, at most `most`. Throws a
// device Error if cuBLASLt has no kernel for the product.
std::vector<Launch> generic_product(const Device& device,
                                    const GemmShape& shape,
                                    Fp32Products fp32,
                                    const ProductMemory& memory,
                                    int most);

}  // namespace ridge::backends::cuda
