// SPDX-License-Identifier: Apache-2.0
// Describes products to cuBLASLt, which is column-major, and to split_bf16_gemm.h's kernel.
#include "backends/cuda/gemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <type_traits>

#include "backends/cuda/cublaslt.h"
#include "backends/cuda/device_error.h"
#include "backends/cuda/kernels/gemm/split_bf16_gemm.h"
#include "base/error.h"

namespace ridge::backends::cuda {
namespace {

static_assert(sizeof(GemmAlgorithm) == sizeof(cublasLtMatmulAlgo_t));

bool has_contiguous_axis(int64_t rows, int64_t columns, int64_t row_step, int64_t column_step) {
  return rows == 1 || columns == 1 || row_step == 1 || column_step == 1;
}

// The library rejects a stride of 0 and a stride that is shorter than the extent it must span.
bool steps_out(int64_t rows, int64_t columns, int64_t row_step, int64_t column_step) {
  if (rows == 1 || columns == 1)
    return (rows == 1 || row_step > 0) && (columns == 1 || column_step > 0);
  return row_step == 1 ? column_step >= rows : row_step >= columns;
}

bool takes_matrix(int64_t rows, int64_t columns, int64_t row_step, int64_t column_step) {
  return has_contiguous_axis(rows, columns, row_step, column_step) &&
         steps_out(rows, columns, row_step, column_step);
}

// The same product written transposed.
GemmShape transposed(const GemmShape& g) {
  GemmShape t = g;
  t.m = g.n, t.n = g.m;
  t.a_batch = g.b_batch, t.b_batch = g.a_batch;
  t.a_m = g.b_n, t.a_k = g.b_k;
  t.b_k = g.a_k, t.b_n = g.a_m;
  t.c_m = g.c_n, t.c_n = g.c_m;
  return t;
}

// A rows x columns matrix as cuBLASLt stores it: columns `leading` apart, or the transpose of that.
struct Stored {
  int64_t rows, columns, leading;
  bool is_transposed;
};

Stored stored(int64_t rows, int64_t columns, int64_t row_step, int64_t column_step) {
  bool by_columns = row_step == 1 || rows == 1;
  if (rows > 1 && columns == 1) by_columns = row_step == 1;
  if (by_columns) return {rows, columns, columns == 1 ? rows : std::max(column_step, rows), false};
  return {columns, rows, rows == 1 ? columns : std::max(row_step, columns), true};
}

cudaDataType_t type_of(DType dtype) { return dtype == DType::kBF16 ? CUDA_R_16BF : CUDA_R_32F; }

cublasLtMatrixLayout_t layout_of(const Stored& s,
                                 DType dtype,
                                 int64_t batch,
                                 int64_t batch_stride) {
  const CublasLt& lt = cublaslt();
  cublasLtMatrixLayout_t layout = nullptr;
  check(lt.layout_create(&layout, type_of(dtype), static_cast<uint64_t>(s.rows),
                         static_cast<uint64_t>(s.columns), s.leading),
        "describing a matrix");
  if (batch > 1) {
    int32_t count = static_cast<int32_t>(batch);
    check(lt.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
          "describing a batch");
    check(lt.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &batch_stride,
                        sizeof batch_stride),
          "describing a batch");
  }
  return layout;
}

// The kernel is row-major: it computes C^T = B^T A^T for a product whose C has contiguous columns.
SplitBf16Gemm split_bf16_gemm(const GemmShape& g,
                              const std::byte* a,
                              const std::byte* b,
                              std::byte* c) {
  auto operand = [](const std::byte* data, int64_t along, int64_t depth) {
    return SplitOperand{reinterpret_cast<const float*>(data), depth == 1 ? along : depth,
                        depth == 1};
  };
  SplitBf16Gemm product;
  product.m = g.n, product.n = g.m, product.k = g.k;
  product.a = operand(b, g.b_n, g.b_k);
  product.b = operand(a, g.a_m, g.a_k);
  product.c = reinterpret_cast<float*>(c);
  product.c_step = g.c_n;
  product.accumulate = g.accumulate;
  return product;
}

// The library writes columns. For a result in rows, the transposed product is computed in columns.
bool lies_in_rows(const GemmShape& shape) {
  return shape.n > 1 ? shape.c_n == 1 : shape.m > 1 && shape.c_m != 1;
}

}  // namespace

struct GemmProblem::Descriptors {
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatmulDesc_t whole = nullptr;  // the same for the whole GPU, if `product` is for a part
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;

  ~Descriptors() {
    const CublasLt& lt = cublaslt();
    for (cublasLtMatrixLayout_t layout : {a, b, c})
      if (layout != nullptr) lt.layout_destroy(layout);
    for (cublasLtMatmulDesc_t description : {product, whole})
      if (description != nullptr) lt.description_destroy(description);
  }

  // Appends up to `most` of the library's proposals, without those that are already in the list.
  void propose(cublasLtMatmulDesc_t description,
               cublasLtMatmulPreference_t preference,
               int most,
               std::vector<GemmAlgorithm>& algorithms) const {
    const CublasLt& lt = cublaslt();
    std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(most));
    int found = 0;
    const cublasStatus_t status =
        lt.heuristic(lt.handle, description, a, b, c, c, preference, most, results.data(), &found);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return;
    check(status, "asking for product kernels");
    for (int i = 0; i < found; ++i) {
      const cublasLtMatmulHeuristicResult_t& result = results[static_cast<size_t>(i)];
      if (result.state != CUBLAS_STATUS_SUCCESS) continue;
      GemmAlgorithm algorithm;
      std::memcpy(&algorithm, &result.algo, sizeof algorithm);
      if (std::find(algorithms.begin(), algorithms.end(), algorithm) == algorithms.end())
        algorithms.push_back(algorithm);
    }
  }
};

GemmBatch join_batch(const GemmShape& shape) {
  struct Axis {
    int64_t extent, a, b, c;
  };
  std::vector<Axis> axes;
  for (size_t i = 0; i < shape.batch.size(); ++i)
    if (shape.batch[i] != 1)
      axes.push_back({shape.batch[i], shape.a_batch[i], shape.b_batch[i], shape.c_batch[i]});
  std::stable_sort(axes.begin(), axes.end(),
                   [](const Axis& x, const Axis& y) { return x.c > y.c; });
  std::vector<Axis> joined;  // innermost first
  for (size_t i = axes.size(); i-- > 0;) {
    const Axis& outer = axes[i];
    Axis* inner = joined.empty() ? nullptr : &joined.back();
    if (inner != nullptr && outer.a == inner->a * inner->extent &&
        outer.b == inner->b * inner->extent && outer.c == inner->c * inner->extent)
      inner->extent *= outer.extent;
    else
      joined.push_back(outer);
  }
  GemmBatch batch{shape, {0}, {0}, {0}};
  GemmShape& g = batch.shape;
  g.batch.clear(), g.a_batch.clear(), g.b_batch.clear(), g.c_batch.clear();
  if (joined.empty()) return batch;
  auto largest = std::max_element(joined.begin(), joined.end(),
                                  [](const Axis& x, const Axis& y) { return x.extent < y.extent; });
  g.batch = {largest->extent}, g.a_batch = {largest->a}, g.b_batch = {largest->b},
  g.c_batch = {largest->c};
  joined.erase(largest);
  for (const Axis& axis : joined) {
    size_t count = batch.a.size();
    for (int64_t i = 1; i < axis.extent; ++i)
      for (size_t j = 0; j < count; ++j) {
        batch.a.push_back(batch.a[j] + i * axis.a);
        batch.b.push_back(batch.b[j] + i * axis.b);
        batch.c.push_back(batch.c[j] + i * axis.c);
      }
  }
  return batch;
}

bool is_supported(const GemmShape& g) {
  return takes_matrix(g.m, g.k, g.a_m, g.a_k) && takes_matrix(g.k, g.n, g.b_k, g.b_n) &&
         takes_matrix(g.m, g.n, g.c_m, g.c_n) && join_batch(g).a.size() == 1;
}

bool suits_split_bf16(const GemmShape& shape, bool tf32, int64_t alignment_bytes) {
  constexpr int64_t kLeast = 64, kLeastDepth = 128;
  const GemmShape& g = lies_in_rows(shape) ? transposed(shape) : shape;
  return !tf32 && g.input == DType::kF32 && g.output == DType::kF32 && g.batch.empty() &&
         g.m >= kLeast && g.n >= kLeast && g.k >= kLeastDepth && (g.a_m == 1 || g.a_k == 1) &&
         (g.b_k == 1 || g.b_n == 1) &&
         takes_split_bf16_gemm(split_bf16_gemm(g, nullptr, nullptr, nullptr), alignment_bytes);
}

int64_t alignment_of(const void* address) {
  constexpr uintptr_t kMost = 256;
  uintptr_t bits = reinterpret_cast<uintptr_t>(address) | kMost;
  return static_cast<int64_t>(bits & (~bits + 1));
}

GemmProblem::GemmProblem(const GemmShape& shape,
                         Fp32Products fp32,
                         int64_t alignment_bytes,
                         int multiprocessors)
    : fp32_(shape.input == DType::kF32 ? fp32 : Fp32Products{}),
      alignment_bytes_(alignment_bytes),
      multiprocessors_(multiprocessors),
      descriptors_(std::make_unique<Descriptors>()) {
  swapped_ = lies_in_rows(shape);
  shape_ = swapped_ ? transposed(shape) : shape;
  const GemmShape& g = shape_;
  RIDGE_CHECK(g.batch.size() <= 1, "{} has {} batch axes", g.key(), g.batch.size());
  const CublasLt& lt = cublaslt();
  Stored a = stored(g.m, g.k, g.a_m, g.a_k), b = stored(g.k, g.n, g.b_k, g.b_n);
  Stored c{g.m, g.n, g.n == 1 ? g.m : std::max(g.c_n, g.m), false};
  auto describe = [&](cublasLtMatmulDesc_t& description, int32_t target) {
    cublasComputeType_t compute = fp32_.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    check(lt.description_create(&description, compute, CUDA_R_32F), "describing a product");
    auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
      check(lt.description_set(description, attribute, &value, sizeof value),
            "describing a product");
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, a.is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, b.is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (target > 0) set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, target);
  };
  describe(descriptors_->product, multiprocessors_);
  if (has_neighbours()) describe(descriptors_->whole, 0);
  int64_t batch = g.batch.empty() ? 1 : g.batch[0];
  descriptors_->a = layout_of(a, g.input, batch, g.batch.empty() ? 0 : g.a_batch[0]);
  descriptors_->b = layout_of(b, g.input, batch, g.batch.empty() ? 0 : g.b_batch[0]);
  descriptors_->c = layout_of(c, g.output, batch, g.batch.empty() ? 0 : g.c_batch[0]);
}

GemmProblem::~GemmProblem() = default;

std::string GemmProblem::key() const {
  return fmt::format("{}{}{}:align{}:sm{}", shape_.key(), fp32_.tf32 ? ":tf32" : "",
                     takes_native() ? ":own" : "", alignment_bytes_, multiprocessors_);
}

bool GemmProblem::takes_native() const {
  return fp32_.is_native && suits_split_bf16(shape_, fp32_.tf32, alignment_bytes_);
}

std::vector<GemmAlgorithm> GemmProblem::candidates(int most) const {
  std::vector<GemmAlgorithm> algorithms;
  if (takes_native()) algorithms.push_back(kPieces);
  if (most == 1 && !algorithms.empty()) return algorithms;
  const CublasLt& lt = cublaslt();
  cublasLtMatmulPreference_t preference = nullptr;
  check(lt.preference_create(&preference), "asking for product kernels");
  const std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>,
                        decltype(lt.preference_destroy)>
      destroyed(preference, lt.preference_destroy);
  auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check(lt.preference_set(preference, attribute, &value, sizeof value),
          "asking for product kernels");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kGemmWorkspaceBytes));
  // Partial sums are added by a separate kernel in a fixed order. With neighbours there are no
  // partial sums: there are enough tiles, and one kernel fewer runs.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(has_neighbours() ? CUBLASLT_REDUCTION_SCHEME_NONE
                                             : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(attribute, static_cast<uint32_t>(alignment_bytes_));
  descriptors_->propose(descriptors_->product, preference, most, algorithms);
  if (has_neighbours() && most > 1)
    descriptors_->propose(descriptors_->whole, preference, most, algorithms);
  return algorithms;
}

bool GemmProblem::accepts(const GemmAlgorithm& algorithm) const {
  if (algorithm == kPieces) return takes_native();
  const CublasLt& lt = cublaslt();
  cublasLtMatmulAlgo_t algo;
  std::memcpy(&algo, &algorithm, sizeof algo);
  cublasLtMatmulHeuristicResult_t result{};
  return lt.algorithm_check(lt.handle, descriptors_->product, descriptors_->a, descriptors_->b,
                            descriptors_->c, descriptors_->c, &algo,
                            &result) == CUBLAS_STATUS_SUCCESS &&
         result.state == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= static_cast<size_t>(kGemmWorkspaceBytes);
}

void GemmProblem::launch(const GemmAlgorithm& algorithm,
                         const std::byte* a,
                         const std::byte* b,
                         std::byte* c,
                         std::byte* workspace,
                         cudaStream_t stream) const {
  if (swapped_) std::swap(a, b);
  launch_stored(algorithm, a, b, c, workspace, stream);
}

void GemmProblem::launch_stored(const GemmAlgorithm& algorithm,
                                const std::byte* a,
                                const std::byte* b,
                                std::byte* c,
                                std::byte* workspace,
                                cudaStream_t stream) const {
  if (algorithm == kPieces)
    return check(launch_split_bf16_gemm(split_bf16_gemm(shape_, a, b, c), stream),
                 "launching a product");
  const CublasLt& lt = cublaslt();
  cublasLtMatmulAlgo_t algo;
  std::memcpy(&algo, &algorithm, sizeof algo);
  const float one = 1, beta = shape_.accumulate ? 1.0f : 0.0f;
  check(lt.matmul(lt.handle, descriptors_->product, &one, a, descriptors_->a, b, descriptors_->b,
                  &beta, c, descriptors_->c, c, descriptors_->c, &algo, workspace,
                  static_cast<size_t>(kGemmWorkspaceBytes), stream),
        "launching a product");
}

}  // namespace ridge::backends::cuda
