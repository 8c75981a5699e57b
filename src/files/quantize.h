// SPDX-License-Identifier: Apache-2.0
// Converts floats to stored element types: 16-bit floats and GGUF's quantized blocks
// (base/block_formats.h has the layouts and the dequantization). Used for making files; kernels
// that quantize activations are elsewhere.
#pragma once

#include <cstddef>
#include <span>

#include "base/dtype.h"

namespace ridge::files {

// True for F32, F64, F16, BF16 and the block types Q4_0 to Q8_0 and Q2_K to Q6_K.
bool can_quantize(DType dtype);

// `values` must be whole blocks and `out` exactly their storage (checked). A row of a matrix must
// be whole blocks too, which the caller ensures. The same input gives the same bytes. Blocks are
// independent, so a caller may split the work over threads at any block boundary.
//
// 16-bit floats round to nearest even. Q4_0 to Q8_0 follow the format's reference rule (scale from
// the extremes). K-quants search for the scales that minimise the squared error (see k_quants.h).
// Throws a bad-file Error that names the element if it is not finite, or too large for the type's
// 16-bit scale.
void quantize(DType dtype, std::span<const float> values, std::span<std::byte> out);

}  // namespace ridge::files
