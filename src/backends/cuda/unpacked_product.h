// SPDX-License-Identifier: Apache-2.0
// Products of many rows with a weight in fragment tiles: a slice of the weight is unpacked to bf16,
// which stays in the L2 cache, and multiplied as any other; then the next slice.
#pragma once

#include "backends/cuda/bind_context.h"
#include "backends/cuda/kernels/gemm/fragment_gemm.h"
#include "backends/product_plan.h"

namespace ridge::backends::cuda {

FragmentFormat fragment_format(DType dtype);

// Whether the second operand is in fragment tiles.
bool has_fragments(const Call& product);

// Why the GPU does not compute a matmul with such a weight; empty if it does.
std::string unsupported_fragments(const Call& matmul);

// The memory of one slice, and the launches of all.
int64_t unpacked_bytes(const Call& matmul);
int unpacked_launches(const Call& matmul);

// Binds a product of bf16 operands.
using BindPlain =
    std::function<Launch(const GemmShape&, const std::byte* a, const std::byte* b, std::byte* c)>;
// `scratch` has unpacked_bytes.
Launch bind_unpacked(const BindCall& matmul,
                     std::byte* scratch,
                     const BindPlain& bind_plain,
                     BindContext& context);

}  // namespace ridge::backends::cuda
