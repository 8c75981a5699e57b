// SPDX-License-Identifier: Apache-2.0
// Maps the einsum of a matmul node to batched strided products [batch..., M, K] x [batch..., K, N],
// with a loop where axes cannot be joined. Does not call any library.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "base/dtype.h"
#include "graph/einsum.h"

namespace ridge::backends {

// Extents and strides in elements. A is [batch..., m, k], B [batch..., k, n], C [batch..., m, n]; a
// batch stride of 0 in A or B repeats the matrix.
struct GemmShape {
  std::vector<int64_t> batch, a_batch, b_batch, c_batch;
  int64_t m = 1, n = 1, k = 1;
  int64_t a_m = 0, a_k = 0, b_k = 0, b_n = 0, c_m = 0, c_n = 0;
  DType input = DType::kF32;   // type of A and B: f32 or bf16
  DType output = DType::kF32;  // type of C
  bool accumulate = false;

  std::string key() const;  // all of the above in one string
};

struct ProductLayouts {
  Strides a, b, out;
};
// The layouts of dense operands and a dense result.
ProductLayouts dense_layouts(const Call& call);

struct ProductPlan {
  GemmShape gemm;
  std::string loop;  // remaining summed letters: one accumulating product per value
  // Batch letters along which both operands repeat: one product per value
  std::string copies;
};
ProductPlan plan_product(const Call& call, const ProductLayouts& layouts);

// One product of the loops: where its operands begin, in elements, and whether it adds to the
// existing result.
struct ProductStep {
  int64_t a = 0, b = 0, c = 0;
  bool accumulate = false;
};
std::vector<ProductStep> product_steps(const Call& call,
                                       const ProductLayouts& layouts,
                                       const ProductPlan& plan);

// Whether the product is empty: no results, or sums over no terms.
bool is_empty_product(const Call& call);

}  // namespace ridge::backends
