// SPDX-License-Identifier: Apache-2.0
// A strided and possibly batched matrix product: C = A B, or C += A B, through cuBLASLt or a native
// GEMM. gemm_tuner.h chooses the algorithm.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/product_plan.h"

namespace ridge::backends::cuda {

// Scratch for products: as much as cuBLAS itself takes on Hopper. With half of it, fp32 products of
// a small model are a quarter slower.
inline constexpr int64_t kGemmWorkspaceBytes = int64_t{32} << 20;

// A product with its batch axes joined where their strides allow it. Of the remaining axes, the
// largest goes to the library.
struct GemmBatch {
  GemmShape shape;               // with at most one batch axis
  std::vector<int64_t> a, b, c;  // offsets of the products in elements: one launch each
};
GemmBatch join_batch(const GemmShape& shape);

// Whether cuBLASLt supports the strides: one of the two axes of each matrix must be contiguous,
// with at most one batch axis.
bool is_supported(const GemmShape& shape);

// Says how fp32 operands are multiplied; for other types there is only one way.
struct Fp32Products {
  bool tf32 = false;       // rounded to TF32
  bool is_native = false;  // a native GEMM may run where it suits the product
};

// Opaque to all but cuBLASLt; the same bits select the same kernel with the same library on the
// same GPU.
using GemmAlgorithm = std::array<uint64_t, 8>;
// The native GEMM in kernels/gemm/split_bf16_gemm.h. No algorithm of the library begins with these
// bits.
inline constexpr GemmAlgorithm kPieces = {~uint64_t{0}};

// The descriptors of one product of a supported shape.
class GemmProblem {
 public:
  // `alignment_bytes`: a power of two that divides the addresses of all three matrices.
  // `multiprocessors`: how many the product should fill; 0: all.
  GemmProblem(const GemmShape& shape,
              Fp32Products fp32,
              int64_t alignment_bytes,
              int multiprocessors = 0);
  ~GemmProblem();
  GemmProblem(const GemmProblem&) = delete;

  const GemmShape& shape() const { return shape_; }
  int multiprocessors() const { return multiprocessors_; }
  std::string key() const;  // everything that the choice of an algorithm depends on
  // The native GEMM if it may run and suits the product, then up to `most` of the library's
  // proposals, best guess first. For a part of the GPU, up to `most` proposals for the whole GPU
  // follow. If `most` is 1, only the first candidate. Empty if there is none. All sum in a fixed
  // order.
  std::vector<GemmAlgorithm> candidates(int most) const;
  bool accepts(const GemmAlgorithm& algorithm) const;

  void launch(const GemmAlgorithm& algorithm,
              const std::byte* a,
              const std::byte* b,
              std::byte* c,
              std::byte* workspace,
              cudaStream_t stream) const;
  // Like launch, but with the operands of shape(), where A and B may be swapped.
  void launch_stored(const GemmAlgorithm& algorithm,
                     const std::byte* a,
                     const std::byte* b,
                     std::byte* c,
                     std::byte* workspace,
                     cudaStream_t stream) const;

 private:
  struct Descriptors;
  bool takes_native() const;
  bool has_neighbours() const { return multiprocessors_ > 0; }
  GemmShape shape_;  // the library gets this column-major product
  Fp32Products fp32_;
  bool swapped_;  // C^T = B^T A^T: A and B are swapped
  int64_t alignment_bytes_;
  int multiprocessors_;
  std::unique_ptr<Descriptors> descriptors_;
};

// Whether split_bf16_gemm.h's kernel supports the product, and its tiles would not be mostly empty.
bool suits_split_bf16(const GemmShape& shape, bool tf32, int64_t alignment_bytes);

// The largest power of two up to 256 that divides the address.
int64_t alignment_of(const void* address);

}  // namespace ridge::backends::cuda
