// SPDX-License-Identifier: Apache-2.0
// The op ladder_gemm of the demo gemm-ladder, and its kernels, each of which mends what holds the
// one before up.
#pragma once

#include <array>
#include <string_view>

#include "graph/op.h"

namespace ridge::courses {

inline constexpr std::array<std::string_view, 5> kLadderKernels = {
    "naive",           // a thread for each result; the threads of a warp read different rows
    "coalesced",       // the threads of a warp read neighbouring columns
    "shared_tiles",    // a block reads tiles into shared memory
    "register_tiles",  // a thread computes 8 by 8 results in registers
    "tensor_cores"};   // bf16 on tensor cores, sums in fp32

const Op& ladder_gemm_op();

}  // namespace ridge::courses
