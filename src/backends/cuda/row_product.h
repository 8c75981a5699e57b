// SPDX-License-Identifier: Apache-2.0
// Products that kernels/gemm/row_product.h supports: a few rows in bf16 times a weight. Other
// products are in matmul.cc.
#pragma once

#include <optional>

#include "backends/cuda/bind_context.h"

namespace ridge::backends::cuda {

inline constexpr int kRowProductRounds = 3;

// Whether the kernel supports a matmul's types and shapes: a few rows times a weight. Does not
// check layouts.
bool has_few_rows(const Call& call);
// The launch of a matmul "nd,fd->nf" with two operands, or nullopt if the kernel does not support
// it.
std::optional<Launch> bind_few_rows(const BindCall& call, BindContext& context);

}  // namespace ridge::backends::cuda
