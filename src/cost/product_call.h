// SPDX-License-Identifier: Apache-2.0
// What a matmul node asks a product library for: one batched product of extents and form. Which
// library, and how it is called, is a backend's business.
#pragma once

#include "cost/ceilings.h"
#include "graph/op.h"

namespace ridge::cost {

struct ProductCall {
  ProductForm form = ProductForm::kNN;
  ProductExtents extents;
  DType dtype = DType::kF32;  // of the operands
  bool is_native = false;
  bool power_of_two_rows = false;  // some matrix's rows lie a power of two of bytes apart, >= 2 KiB
};

// Letters whose axes step evenly in both tensors that hold them act as one axis; those that don't
// join the largest such axis count as batch. C's rows are taken as contiguous: where its columns
// are, the transposed product is meant.
ProductCall product_call(const Call& call, const Layout& a, const Layout& b, const Layout& c);

}  // namespace ridge::cost
