// SPDX-License-Identifier: Apache-2.0
// The Highway targets that attention is built for; include it before foreach_target.h. Attention
// uses arrays of vectors, which need vectors of a known size; SSSE3 without SSE4 is not worth its
// code.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
