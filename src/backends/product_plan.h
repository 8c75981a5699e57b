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

// A matrix of a product: extents, and strides in elements, with those of its batch axes.
struct GemmMatrix {
  const std::vector<int64_t>& batch_steps;
  int64_t rows, row_step, columns, column_step;
  bool has_contiguous_rows() const { return columns == 1 || column_step == 1; }
  bool has_contiguous_columns() const { return rows == 1 || row_step == 1; }
  bool has_contiguous_axis() const { return has_contiguous_rows() || has_contiguous_columns(); }
};

// Extents and strides in elements. A is [batch..., m, k], B [batch..., k, n], C [batch..., m, n]; a
// batch stride of 0 in A or B repeats the matrix.
struct GemmShape {
  std::vector<int64_t> batch, a_batch, b_batch, c_batch;
  int64_t m = 1, n = 1, k = 1;
  int64_t a_m = 0, a_k = 0, b_k = 0, b_n = 0, c_m = 0, c_n = 0;
  DType input = DType::kF32;   // type of A and B: f32 or bf16
  DType output = DType::kF32;  // type of C
  bool accumulate = false;

  GemmMatrix a() const { return {a_batch, m, a_m, k, a_k}; }
  GemmMatrix b() const { return {b_batch, k, b_k, n, b_n}; }
  GemmMatrix c() const { return {c_batch, m, c_m, n, c_n}; }
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
