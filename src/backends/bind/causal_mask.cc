// SPDX-License-Identifier: Apache-2.0
// Binding of causal_mask.
#include <algorithm>

#include "backends/bind/bindings.h"
#include "backends/bind/row_kernel.h"

namespace ridge::backends::bind {
namespace {

template <typename T>
CausalMask<T> mask_call(const BindCall& call) {
  const Shape& shape = call.inputs[0].type.shape;
  return {shape.elements() / std::max<int64_t>(shape.back(), 1),
          shape.back(),
          call.attrs().integer("window"),
          static_cast<float>(call.attrs().real("value")),
          rows<const T>(call.inputs[0]),
          rows<T>(call.outputs[0])};
}

}  // namespace

Kernel causal_mask(TypedLaunchers<CausalMask> launchers) {
  return row_kernel("causal_mask",
                    bind_typed(std::move(launchers), mask_call<float>, mask_call<uint16_t>));
}

}  // namespace ridge::backends::bind
