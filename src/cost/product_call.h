// SPDX-License-Identifier: Apache-2.0
// Maps a matmul node to one batched GEMM with extents and storage order. The backend chooses the
// library and calls it.
#pragma once

#include "cost/ceilings.h"
#include "graph/op.h"

namespace ridge::cost {

struct ProductCall {
  ProductForm form = ProductForm::kNN;
  ProductExtents extents;
  DType dtype = DType::kF32;  // the operands have it
  bool is_native = false;
  // Whether the distance between rows of any of the matrices is a power of two of bytes, >= 2 KiB.
  bool power_of_two_rows = false;
};

// Maps a matmul to a GEMM. Letters whose axes step evenly in both tensors that contain them are
// merged into one axis; letters that cannot join the largest such axis count as batch. The rows of
// C are assumed contiguous; if its columns are, the result is the transposed GEMM.
ProductCall product_call(const Call& call, const Layout& a, const Layout& b, const Layout& c);

}  // namespace ridge::cost
