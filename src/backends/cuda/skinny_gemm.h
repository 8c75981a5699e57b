// SPDX-License-Identifier: Apache-2.0
// GEMMs that kernels/gemm/skinny_gemm.h supports: a few rows in bf16 times a weight. Other ones are
// in matmul.cc.
#pragma once

#include <optional>

#include "backends/cuda/bind_context.h"

namespace ridge::backends::cuda {

// Trips of a skinny GEMM: to the rows, and to the sums of the block's other warps. A norm
// takes two trips, and one and a half more for each doubling of the rows
// (docs/runs/2026-11-25-prediction-inference-h100.md).
int skinny_gemm_rounds(int64_t tokens, int norms);
// The same for a weight in fragment tiles: the rows arrive behind the first copies of the weight,
// and blocks add up their parts at the end. 3.4 us on an H200, and 0.4 more for twice the rows.
int fragment_gemm_rounds(int64_t tokens);
// Trips of a streamed GEMM, between which it reads its weight
// (docs/runs/2026-11-30-prediction-inference-h200.md).
int streamed_gemm_rounds(int64_t tokens);

// Whether kernels/gemm/streamed_gemm.h multiplies x by the weight faster, though it fuses neither
// norms nor residuals: from three rows on, for the weights of narrow models
// (docs/runs/2026-11-28-decode-h200-sequences.md). An activation multiplies the halves of the
// result.
bool prefers_streamed_gemm(const Shape& x, const Shape& weight, bool has_activation);
// Whether the rows start at multiples of 16 bytes.
bool lies_in_vectors(const Shape& shape, const Layout& layout);

// Whether the kernel supports a matmul's types and shapes: a few rows times a weight. Does not
// check layouts.
bool is_skinny_gemm(const Call& call);
// Whether a matmul is one of a dense bf16 weight that prefers_streamed_gemm.
bool is_streamed_gemm(const Call& call);
// The same for a weight in fragment tiles and up to some tens of rows, and the launches and the
// workspace of such a matmul.
bool is_fragment_gemm(const Call& call);
int fragment_launches(const Call& call);
int64_t fragment_workspace_bytes(const Call& call);
// The launch of a matmul "nd,fd->nf" with two operands, or nullopt if the kernel does not support
// it.
std::optional<Launch> bind_skinny_gemm(const BindCall& call, BindContext& context);
// The same for kernels/gemm/streamed_gemm.h: three to some tens of rows times a weight that no
// other launch of the graph writes.
std::optional<Launch> bind_streamed_gemm(const BindCall& call, BindContext& context);

}  // namespace ridge::backends::cuda
