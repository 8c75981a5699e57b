// SPDX-License-Identifier: Apache-2.0
// oneDNN matmul primitives on strided memory descriptors.
#include "backends/cpu/gemm.h"

#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <utility>

#include "base/error.h"

namespace ridge::backends::cpu {
namespace {

constexpr size_t kMostBatchAxes = 3;  // oneDNN's optimized kernels take tensors of up to 5 axes

dnnl::engine& engine() {
  static dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

dnnl::stream& stream() {
  static dnnl::stream instance(engine());
  return instance;
}

dnnl::memory::data_type data_type(DType dtype) {
  if (dtype == DType::kF32) return dnnl::memory::data_type::f32;
  if (dtype == DType::kBF16) return dnnl::memory::data_type::bf16;
  throw usage_error("[matmul] the cpu backend multiplies f32 and bf16, not {}", name(dtype));
}

// C^T = B^T A^T: the same product with C's columns as rows.
GemmShape transposed(const GemmShape& g) {
  GemmShape t = g;
  std::swap(t.a_batch, t.b_batch);
  std::swap(t.m, t.n);
  t.a_m = g.b_n, t.a_k = g.b_k;
  t.b_k = g.a_k, t.b_n = g.a_m;
  t.c_m = g.c_n, t.c_n = g.c_m;
  return t;
}

bool is_matrix(int64_t rows, int64_t row_step, int64_t columns, int64_t column_step) {
  bool rows_contiguous = columns == 1 || column_step == 1;
  bool columns_contiguous = rows == 1 || row_step == 1;
  bool repeats = (rows > 1 && row_step == 0) || (columns > 1 && column_step == 0);
  return (rows_contiguous || columns_contiguous) && !repeats;
}

dnnl::memory::desc describe(const std::vector<int64_t>& batch, const std::vector<int64_t>& batch_strides, int64_t rows,
                            int64_t row_step, int64_t columns, int64_t column_step, DType dtype) {
  dnnl::memory::dims dims, strides;
  for (size_t i = 0; i < batch.size(); ++i) {
    // oneDNN repeats an operand along a batch axis of extent 1.
    dims.push_back(batch_strides[i] == 0 ? 1 : batch[i]);
    strides.push_back(batch_strides[i] == 0 ? 1 : batch_strides[i]);
  }
  dims.push_back(rows);
  dims.push_back(columns);
  // The step along an axis of one element is free; choose it so that the matrix looks dense.
  if (columns == 1) column_step = rows > 1 && row_step == 1 ? rows : 1;
  if (rows == 1) row_step = column_step == 1 ? columns : 1;
  strides.push_back(row_step);
  strides.push_back(column_step);
  return dnnl::memory::desc(dims, data_type(dtype), strides);
}

}  // namespace

bool is_supported(const GemmShape& g) {
  if (g.batch.size() > kMostBatchAxes) return false;
  bool c_rows = g.n == 1 || g.c_n == 1, c_columns = g.m == 1 || g.c_m == 1;
  bool c_fits = (c_rows || c_columns) && is_matrix(g.m, g.c_m, g.n, g.c_n);
  return c_fits && is_matrix(g.m, g.a_m, g.k, g.a_k) && is_matrix(g.k, g.b_k, g.n, g.b_n);
}

struct Gemm::Primitive {
  dnnl::matmul primitive;
  std::unordered_map<int, dnnl::memory> arguments;
};

Gemm::Gemm(const GemmShape& shape, std::byte* a, std::byte* b, std::byte* c) {
  GemmShape g = shape;
  if (g.n > 1 && g.c_n != 1) {
    g = transposed(g);
    std::swap(a, b);
  }
  RIDGE_CHECK(is_supported(g), "a product of strides that oneDNN does not take");
  auto made = std::make_shared<Primitive>();
  dnnl::memory::desc da = describe(g.batch, g.a_batch, g.m, g.a_m, g.k, g.a_k, g.input);
  dnnl::memory::desc db = describe(g.batch, g.b_batch, g.k, g.b_k, g.n, g.b_n, g.input);
  dnnl::memory::desc dc = describe(g.batch, g.c_batch, g.m, g.c_m, g.n, g.c_n, g.output);
  dnnl::primitive_attr attr;
  if (g.accumulate) {
    dnnl::post_ops post;
    post.append_sum(1.0f);
    attr.set_post_ops(post);
  }
  dnnl::matmul::primitive_desc description({da, db, dc}, attr, engine());
  made->primitive = dnnl::matmul(description);
  made->arguments = {{DNNL_ARG_SRC, dnnl::memory(da, engine(), a)},
                     {DNNL_ARG_WEIGHTS, dnnl::memory(db, engine(), b)},
                     {DNNL_ARG_DST, dnnl::memory(dc, engine(), c)}};
  primitive_ = std::move(made);
}

void Gemm::run() const { primitive_->primitive.execute(stream(), primitive_->arguments); }

}  // namespace ridge::backends::cpu
