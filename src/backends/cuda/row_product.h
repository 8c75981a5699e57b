// SPDX-License-Identifier: Apache-2.0
// Plain products that kernels/gemm/row_product.h takes: of a few rows in bf16 by a weight. Other
// products are matmul.cc's.
#pragma once

#include <optional>

#include "backends/cuda/bind_context.h"

namespace ridge::backends::cuda {

inline constexpr int kRowProductRounds = 3;

// Whether the kernel takes a matmul's types: a few rows
// by a weight. Where they lie is another question.
bool has_few_rows(const Call& call);
// The launch of a matmul "nd,fd->nf" of two operands, or nothing where the kernel does not take it.
std::optional<Launch> bind_few_rows(const BindCall& call, BindContext& context);

}  // namespace ridge::backends::cuda
