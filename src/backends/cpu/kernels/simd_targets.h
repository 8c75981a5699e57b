// SPDX-License-Identifier: Apache-2.0
// The Highway targets that the kernels are built for; include it before foreach_target.h. AVX-512
// and AVX2 are what machines in use have; scalar code is the fallback that Highway requires unless
// the baseline is raised. SSSE3 and SSE4 would double the compile time for machines from before
// 2013.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
// The fallback is scalar code with every compiler. Since GCC 12.3 Highway would take emulated
// vectors of 128 bits instead, which kernels are not written for.
#define HWY_BROKEN_EMU128 1
