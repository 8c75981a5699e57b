// SPDX-License-Identifier: Apache-2.0
// A strided and possibly batched matrix product: C = A B, or C += A B, through oneDNN in one of
// several call forms, or by a native GEMM.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "backends/product_plan.h"

namespace ridge::backends::cpu {

// Whether oneDNN supports the strides: one of the two axes of each matrix must be contiguous.
bool is_supported(const GemmShape& shape);

// Ways to compute the same GEMM; tune_gemm chooses among them by measuring. Each computes in fp32
// (bf16 operands by bf16 instructions) but may sum in a different order.
enum class GemmForm : uint8_t {
  kMatmul,  // a matmul primitive on the strided operands in place
  kSgemm,   // the BLAS-like call, fp32 without batch
  // Operands in fp16, and in bf16 on machines without instructions for it, are widened to fp32 in
  // the workspace first.
  kWidened,
  // Not oneDNN but kernels/tile_gemm/tile_gemm.h: bf16 without batch, on machines with AMX.
  kTiles,
};
std::string_view name(GemmForm form);
// The kernel of the form as a profiler would list it; that of a matmul primitive is oneDNN's name.
std::string kernel_name(GemmForm form, const GemmShape& shape);
std::span<const GemmForm> gemm_forms();
bool takes(GemmForm form, const GemmShape& shape);

// The form to use without measurements: kTiles if it supports the shape and `native` allows it,
// else kSgemm for A^T B in fp32, kWidened for types that the machine cannot multiply, else kMatmul.
GemmForm default_form(const GemmShape& shape, bool native);

// Scratch bytes that a GEMM needs in the form; oneDNN's scratch depends on the number of threads.
int64_t gemm_workspace_bytes(GemmForm form, const GemmShape& shape);

// Binds a GEMM to its pointers. If only C's columns are contiguous, C^T = B^T A^T is computed
// instead, because oneDNN writes rows (its fallback for columns is a scalar loop). If the workspace
// is too small, the GEMM allocates its own.
using GemmLaunch = std::function<void()>;
struct GemmOperands {
  std::byte *a, *b, *c;
  std::span<std::byte> workspace = {};
};
GemmLaunch bind_gemm(GemmForm form, const GemmShape& shape, GemmOperands operands);

}  // namespace ridge::backends::cpu
