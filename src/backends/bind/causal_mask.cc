// SPDX-License-Identifier: Apache-2.0
// Binding of causal_mask.
#include <algorithm>

#include "backends/bind/bindings.h"
#include "backends/row_layout.h"

namespace ridge::backends::bind {
namespace {

constexpr auto mask_call = []<typename T>(const BindCall& call) -> CausalMask<T> {
  const Shape& shape = call.inputs[0].type.shape;
  CausalMask<T> mask{shape.elements() / std::max<int64_t>(shape.back(), 1),
                     shape.back(),
                     call.attrs().integer("window"),
                     static_cast<float>(call.attrs().real("value")),
                     rows<const T>(call.inputs[0]),
                     rows<T>(call.outputs[0])};
  if (call.inputs.size() > 1) {
    mask.positions = call.inputs[1].as<const int32_t>();
    mask.rows_per_sequence = std::max<int64_t>(mask.rows / std::max<int64_t>(shape[0], 1), 1);
  }
  return mask;
};

}  // namespace

Kernel causal_mask(TypedLaunchers<CausalMask> launchers) {
  return row_kernel("causal_mask", bind_typed(std::move(launchers), mask_call));
}

}  // namespace ridge::backends::bind
