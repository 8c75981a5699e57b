// SPDX-License-Identifier: Apache-2.0
// The copy kernel for each pair of element types.
#include "backends/cpu/strided_copy.h"

#include "backends/cpu/kernels/copy.h"
#include "base/error.h"

namespace ridge::backends::cpu {
namespace {

static_assert(kMaxRank <= kCopyMaxRank);

template <typename From, typename To>
Launch bind(const CopyLayout& layout, const Operand& from, const Operand& to) {
  Copy<From, To> call;
  call.layout = layout;
  call.source = from.as<From>();
  call.target = to.as<To>();
  return [call] { copy(call); };
}

bool is_narrow(DType dtype) {
  RIDGE_CHECK(dtype == DType::kF32 || dtype == DType::kI32 || dtype == DType::kBF16, "a copy of {}",
              name(dtype));
  return dtype == DType::kBF16;
}

}  // namespace

Launch strided_copy(const Operand& from, const Operand& to) {
  const Shape& shape = from.type.shape;
  bool converts = from.type.dtype != to.type.dtype;
  RIDGE_CHECK(shape == to.type.shape, "a copy of {} to {}", from.type.str(), to.type.str());
  RIDGE_CHECK(!converts || (from.type.dtype != DType::kI32 && to.type.dtype != DType::kI32),
              "a copy of {} to {}", from.type.str(), to.type.str());
  CopyLayout layout{.rank = shape.rank()};
  for (int axis = 0; axis < shape.rank(); ++axis) {
    layout.extents[axis] = shape[axis];
    layout.source_strides[axis] = from.strides[axis];
    layout.target_strides[axis] = to.strides[axis];
  }
  bool narrow_from = is_narrow(from.type.dtype), narrow_to = is_narrow(to.type.dtype);
  if (narrow_from)
    return narrow_to ? bind<uint16_t, uint16_t>(layout, from, to)
                     : bind<uint16_t, float>(layout, from, to);
  return narrow_to ? bind<float, uint16_t>(layout, from, to) : bind<float, float>(layout, from, to);
}

}  // namespace ridge::backends::cpu
