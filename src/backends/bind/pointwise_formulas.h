// SPDX-License-Identifier: Apache-2.0
// Finds formulas in a pointwise program that one function computes, in whatever order the program
// multiplies out their terms.
#pragma once

#include "backends/kernels/pointwise_program.h"

namespace ridge::backends {

// The same program, each register of which is written once, with one gelu_tanh in the place of
// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) and without what nothing reads any more. Between
// the first term and the last nothing may be rounded to 16 bits.
PointwiseProgram with_gelu_tanh(const PointwiseProgram& program, int inputs);

}  // namespace ridge::backends
