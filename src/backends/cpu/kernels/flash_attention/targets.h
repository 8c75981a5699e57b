// SPDX-License-Identifier: Apache-2.0
// Builds attention for each Highway target, as ../simd_targets.h does for other kernels. Attention
// uses arrays of vectors, which need vectors of a known size; SSSE3 without SSE4 is not worth its
// code.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

// It includes the kernel again for each target.
#include <hwy/foreach_target.h>
