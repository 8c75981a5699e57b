// SPDX-License-Identifier: Apache-2.0
// One strided, perhaps batched matrix product: C = A B, or C += A B, through cuBLASLt or a kernel
// of our own. Which algorithm computes it is gemm_tuner.h's choice.
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

// Scratch that products are given: what cuBLAS itself takes on Hopper. With half of it fp32
// products of a small model are a quarter slower.
inline constexpr int64_t kGemmWorkspaceBytes = int64_t{32} << 20;

// Batch axes that step evenly are one; the largest that is left goes to the library.
struct GemmBatch {
  GemmShape shape;               // with at most one batch axis
  std::vector<int64_t> a, b, c;  // where each product begins, in elements: one launch each
};
GemmBatch join_batch(const GemmShape& shape);

// Whether cuBLASLt takes the strides: in each matrix one of the two axes contiguous, and one batch
// axis at most.
bool is_supported(const GemmShape& shape);

// How fp32 operands are multiplied; others have one way.
struct Fp32Products {
  bool tf32 = false;       // rounded to TF32
  bool is_native = false;  // a native GEMM may run where it suits the product
};

// Opaque to all but cuBLASLt; the same bits choose the
// same kernel with the same library on the same GPU.
using GemmAlgorithm = std::array<uint64_t, 8>;
// Ours, of kernels/gemm/piece_product.h: no algorithm of the library's begins so.
inline constexpr GemmAlgorithm kPieces = {~uint64_t{0}};

// The descriptors of one product of a supported shape.
class GemmProblem {
 public:
  // `alignment_bytes`: a power of two that divides the addresses of all three matrices.
  // `multiprocessors`: as many as the product should fill; 0: all.
  GemmProblem(const GemmShape& shape,
              Fp32Products fp32,
              int64_t alignment_bytes,
              int multiprocessors = 0);
  ~GemmProblem();
  GemmProblem(const GemmProblem&) = delete;

  const GemmShape& shape() const { return shape_; }
  int multiprocessors() const { return multiprocessors_; }
  std::string key() const;  // all that the choice of an algorithm depends on
  // Our kernel where it may run and suits the product, then up to `most` of the library's
  // proposals, best guess first; for a part of the GPU then as many again of those for all of it.
  // 1: the first alone. Empty where there is none. All sum in a fixed order.
  std::vector<GemmAlgorithm> candidates(int most) const;
  bool accepts(const GemmAlgorithm& algorithm) const;

  void launch(const GemmAlgorithm& algorithm,
              const std::byte* a,
              const std::byte* b,
              std::byte* c,
              std::byte* workspace,
              cudaStream_t stream) const;
  // The same with the operands of shape(), which may have changed places.
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
  GemmShape shape_;  // of the column-major product that the library sees
  Fp32Products fp32_;
  bool swapped_;  // C^T = B^T A^T: A and B change places
  int64_t alignment_bytes_;
  int multiprocessors_;
  std::unique_ptr<Descriptors> descriptors_;
};

// Whether the kernel of pieces takes the product and its tiles would not be mostly empty.
bool suits_pieces(const GemmShape& shape, bool tf32, int64_t alignment_bytes);

// The largest power of two up to 256 that divides the address.
int64_t alignment_of(const void* address);

}  // namespace ridge::backends::cuda
