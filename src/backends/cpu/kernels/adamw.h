// SPDX-License-Identifier: Apache-2.0
// AdamW on CPUs, on one tensor or on a list of tensors at once, and the factor of gradient
// clipping; backends/kernels/adamw.h says what they compute.
#pragma once

#include <span>

#include "backends/kernels/adamw.h"

namespace ridge::backends::cpu {

void adamw(const AdamwTensor& tensor, const AdamwStep& step);

// The same, bit for bit, over all tensors in one parallel region.
void adamw_multi(std::span<const AdamwTensor> tensors, const AdamwStep& step);

void clip_coefficient(const ClipCoefficient& call);

}  // namespace ridge::backends::cpu
