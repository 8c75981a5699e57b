// SPDX-License-Identifier: Apache-2.0
// Creates OpenMP's threads before they are needed.
#pragma once

namespace ridge {
inline namespace base {

// Creates the omp_get_max_threads() threads of OpenMP's team. Throws an out-of-memory Error if the
// system has no memory for them: OpenMP itself would end the program when the first parallel region
// begins.
void start_openmp_threads();

}  // namespace base
}  // namespace ridge
