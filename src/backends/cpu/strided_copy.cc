// SPDX-License-Identifier: Apache-2.0
// Binds the copy kernel for each pair of element types.
#include "backends/cpu/strided_copy.h"

#include "backends/bind/bindings.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/on_cpu.h"

namespace ridge::backends::cpu {
namespace {

bool is_plain(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kI32 || dtype == DType::kBF16 ||
         dtype == DType::kF16;
}

void check_copied(DType dtype) { RIDGE_CHECK(is_plain(dtype), "a copy of {}", name(dtype)); }

}  // namespace

Launch strided_copy(const Operand& from, const Operand& to) {
  bool converts = from.type.dtype != to.type.dtype;
  RIDGE_CHECK(from.type.shape == to.type.shape, "a copy of {} to {}", from.type.str(),
              to.type.str());
  RIDGE_CHECK(!converts || (from.type.dtype != DType::kI32 && to.type.dtype != DType::kI32),
              "a copy of {} to {}", from.type.str(), to.type.str());
  check_copied(from.type.dtype);
  check_copied(to.type.dtype);
  return bind::strided_copy(pairs_on_cpu<Copy>(RIDGE_KERNELS(copy)), "copy", from, to);
}

}  // namespace ridge::backends::cpu
