// SPDX-License-Identifier: Apache-2.0
// Builds a kernel for each Highway target: include it after HWY_TARGET_INCLUDE was set to the file,
// and before anything that includes highway.h. AVX-512 and AVX2 are what machines in use have;
// scalar code is the fallback that Highway requires unless the baseline is raised. SSSE3 and SSE4
// would double the compile time for machines from before 2013.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
// The fallback is scalar code with every compiler. Since GCC 12.3 Highway would take emulated
// vectors of 128 bits instead, which kernels are not written for.
#define HWY_BROKEN_EMU128 1

// It includes the kernel again for each target.
#include <hwy/foreach_target.h>
