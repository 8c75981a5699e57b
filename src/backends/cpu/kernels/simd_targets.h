// SPDX-License-Identifier: Apache-2.0
// Which of Highway's targets the kernels are built for; include it before foreach_target.h.
// AVX-512 and AVX2 are what the field runs; scalar code is the fallback that Highway demands
// without a raised baseline. SSSE3 and SSE4 would double the compile time for machines from before
// 2013.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
