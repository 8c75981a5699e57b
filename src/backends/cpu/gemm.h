// SPDX-License-Identifier: Apache-2.0
// One strided, perhaps batched matrix product: C = A B, or C += A B, through oneDNN in one of
// several call forms, or by a native GEMM.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "backends/product_plan.h"

namespace ridge::backends::cpu {

// Whether oneDNN takes the strides: one of the two axes of each matrix contiguous.
bool is_supported(const GemmShape& shape);

// Ways to compute the same GEMM; tune_gemm chooses among them by measuring. Each computes in
// fp32 (bf16 operands by bf16 instructions) but may sum in another order.
enum class GemmForm : uint8_t {
  kMatmul,   // a matmul primitive on the strided operands as they lie
  kSgemm,    // the BLAS-like call, fp32 without batch
  kWidened,  // bf16 operands widened to fp32 in the workspace
             // first: for machines without bf16 instructions
  kTiles,    // not oneDNN's: kernels/tile_gemm/tile_gemm.h, bf16 without batch on machines with AMX
};
std::string_view name(GemmForm form);
std::span<const GemmForm> gemm_forms();
bool takes(GemmForm form, const GemmShape& shape);

// The form taken when nobody measured: kWidened for bf16 on machines that cannot multiply it, else
// kMatmul; kTiles before them where it is taken and `native` allows it.
GemmForm default_form(const GemmShape& shape, bool native);

// Scratch that a GEMM needs in its form; the library's depends on the number of threads.
int64_t gemm_workspace_bytes(GemmForm form, const GemmShape& shape);

// A GEMM bound to its pointers. Where only C's columns are contiguous, C^T = B^T A^T is computed
// instead: oneDNN writes rows (its fallback for columns is a scalar loop). A workspace too small is
// not used: the GEMM brings its own.
using GemmLaunch = std::function<void()>;
GemmLaunch bind_gemm(GemmForm form,
                     const GemmShape& shape,
                     std::byte* a,
                     std::byte* b,
                     std::byte* c,
                     std::span<std::byte> workspace);

}  // namespace ridge::backends::cpu
