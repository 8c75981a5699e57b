// SPDX-License-Identifier: Apache-2.0
// AdamW on CPUs, on one tensor or on a list of tensors at
// once; backends/kernels/adamw.h says what it computes.
#pragma once

#include <span>

#include "backends/kernels/adamw.h"

namespace ridge::backends::cpu {

void adamw(const AdamwTensor& tensor, const AdamwStep& step);

// The same, bit for bit, over all tensors in one parallel region.
void adamw_multi(std::span<const AdamwTensor> tensors, const AdamwStep& step);

}  // namespace ridge::backends::cpu
