// SPDX-License-Identifier: Apache-2.0
// The table of PyTorch's operations: the name of each here, whether it is one operation or stands
// for those inside it, and how it counts.
#pragma once

#include <span>
#include <string_view>

#include "record/import/operation_counts.h"

namespace ridge::record {

enum class Role : uint8_t {
  kUnknown,    // not in the table: an operation if nothing is inside it
  kOperation,  // whatever is inside it is a part of it
  kComposite,  // stands for the operations inside it; an operation only where there is none
  kWrapper,    // a frame of the framework around operations, never one
  kView,       // describes a tensor anew, allocates it or reads a scalar: host time alone
};

struct TorchOperation {
  std::string_view pattern;  // a name, without the underscore of its in-place form; "*" is any text
  Role role = Role::kUnknown;
  std::string_view op;  // Ridge's name if Ridge has it
  CountFunction count = nullptr;
  Arithmetic arithmetic = {};
};

std::span<const TorchOperation> torch_operations();
// The first row whose pattern is the name, or else the first one that matches; one of role kUnknown
// if there is none.
const TorchOperation& torch_operation(std::string_view name);

}  // namespace ridge::record
