// SPDX-License-Identifier: Apache-2.0
// The kernels' call of a copy, filled from two operands, and concat as copies into seats.
#pragma once

#include <functional>

#include "backends/backend.h"
#include "backends/kernels/copy.h"

namespace ridge::backends {

// Both have one shape.
CopyLayout copy_layout(const Operand& from, const Operand& to);

template <typename From, typename To>
Copy<From, To> copy_call(const Operand& from, const Operand& to, bool accumulate = false) {
  return {copy_layout(from, to), from.as<const From>(), to.as<To>(), accumulate};
}

// What is only moved may be any 4 bytes.
inline DType moved_as(DType dtype) { return dtype == DType::kI32 ? DType::kF32 : dtype; }

// The parts that are not seated in the output, each copied to its seat by what `copy` binds.
Launch bind_seats(const BindCall& call,
                  const std::function<Launch(const Operand& part, const Operand& seat)>& copy);

}  // namespace ridge::backends
