// SPDX-License-Identifier: Apache-2.0
// Kinds of operations, coarse enough that programs which fuse differently have the same ones. A norm
// is elementwise arithmetic, since many programs have no kernel of its own for it.
#pragma once

#include <string_view>

namespace ridge::record {

// Of everything in the optimizer's phase.
inline constexpr std::string_view kOptimizerKind = "optimizer";
inline constexpr std::string_view kOtherKind = "other";

// The kind of an op of Ridge, or of one that an imported trace names: "matmul", "attention",
// "softmax and loss", "elementwise and norms", "data movement", ... kOtherKind for unknown names.
std::string_view operation_kind(std::string_view op);

}  // namespace ridge::record
