// SPDX-License-Identifier: Apache-2.0
// AdamW on CPUs, for one tensor or a list of tensors, and the clip coefficient.
// backends/kernels/adamw.h defines what they compute.
#pragma once

#include <span>

#include "backends/kernels/adamw.h"

namespace ridge::backends::cpu {

void adamw(const AdamwTensor& tensor, const AdamwStep& step);

// Updates all tensors in one parallel region, with the same bits as adamw.
void adamw_multi(std::span<const AdamwTensor> tensors, const AdamwStep& step);

void clip_coefficient(const ClipCoefficient& call);
void loss_scale(const LossScale& call);

}  // namespace ridge::backends::cpu
