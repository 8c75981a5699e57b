// SPDX-License-Identifier: Apache-2.0
// Bindings of fill and zero: every element of a dense value set to one number.
#include "backends/bind/bindings.h"

namespace ridge::backends::bind {
namespace {

template <typename T>
Fill<T> fill_call(const Operand& out, double value) {
  const int64_t elements = out.type.shape.elements();
  return {1, elements, {out.as<T>(), elements}, value};
}

Launch bind_floats(const TypedLaunchers<Fill>& floats, const BindCall& call, double value) {
  const Operand& out = call.outputs[0];
  return by_float_dtype(moved_as(out.type.dtype), [&](auto element) {
    return floats(fill_call<decltype(element)>(out, value), op_of(call));
  });
}

}  // namespace

Kernel fill(TypedLaunchers<Fill> floats, Launcher<Fill<int32_t>> integers) {
  return {
      .op = "fill",
      .bind = [floats = std::move(floats), integers = std::move(integers)](const BindCall& call) {
        const double value = call.attrs().real("value");
        return call.outputs[0].type.dtype == DType::kI32
                   ? integers(fill_call<int32_t>(call.outputs[0], value), op_of(call))
                   : bind_floats(floats, call, value);
      }};
}

// All bits of a zero are 0 in every type.
Kernel zero(TypedLaunchers<Fill> floats) {
  return {.op = "zero", .bind = [floats = std::move(floats)](const BindCall& call) {
            return bind_floats(floats, call, 0);
          }};
}

}  // namespace ridge::backends::bind
