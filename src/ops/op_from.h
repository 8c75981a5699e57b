// SPDX-License-Identifier: Apache-2.0
// The one header that the file of an op needs: shape checks, short forms of the primitives for
// expansions and gradients, inputs of test cases, and op_from, which makes an op from one struct.
#pragma once

#include <optional>

#include "ops/build.h"
#include "ops/infer.h"

namespace ridge::ops {

// Makes an op from its declaration (name, operands, attributes) and its functions, each named as
// the field of `Op` that it fills. Fields that the struct lacks stay at their defaults.
template <typename Definition>
const Op& op_from() {
  static const Op op = [] {
    Op made = Definition::declaration();
    if constexpr (requires { Definition::infer; }) made.infer = Definition::infer;
    if constexpr (requires { Definition::work; }) made.work = Definition::work;
    if constexpr (requires { Definition::traffic; }) made.traffic = Definition::traffic;
    if constexpr (requires { Definition::model_work; }) made.model_work = Definition::model_work;
    if constexpr (requires { Definition::sent_bytes; }) made.sent_bytes = Definition::sent_bytes;
    if constexpr (requires { Definition::gradient; }) made.gradient = Definition::gradient;
    if constexpr (requires { Definition::expand; }) made.expand = Definition::expand;
    if constexpr (requires { Definition::view; }) made.view = Definition::view;
    if constexpr (requires { Definition::aliases; }) made.aliases = Definition::aliases;
    if constexpr (requires { Definition::reference; }) made.reference = Definition::reference;
    if constexpr (requires { Definition::cases; }) made.cases = Definition::cases;
    return made;
  }();
  return op;
}

// An input that is not differentiated.
inline CaseInput inert(const Type& type) { return {type, {Fill::kNormal, 1, false}}; }
// An input that is not differentiated and keeps its type: no test casts it to bf16.
inline CaseInput fixed(const Type& type, double std = 1) {
  return {type, {Fill::kNormal, std, false}, false};
}
inline CaseInput constant(const Type& type, double value) {
  return {type, {Fill::kConstant, value, false}, false};
}
// Ids from 0 to `bound` - 1, and some -1.
inline CaseInput ids(const Shape& shape, int64_t bound) {
  return {i32(shape), {Fill::kIds, static_cast<double>(bound), false}, false};
}

// The double-precision reference of views that repeat or reorder elements, by the layout that
// `view` returns: the output's elements in row-major order, read from their places in the dense
// input.
inline void read_through(std::optional<Layout> (*view)(const Call&, const Layout&),
                         const Call& call,
                         const Tensor64& input,
                         Tensor64& output) {
  Layout from = *view(call, {0, dense_strides(call.inputs[0].shape)});
  const Shape& shape = call.outputs[0].shape;
  Strides to = dense_strides(shape);
  for (int64_t i = 0; i < shape.elements(); ++i) {
    int64_t at = from.offset;
    for (int axis = 0; axis < shape.rank(); ++axis)
      at += i / to[axis] % shape[axis] * from.strides[axis];
    output.data[static_cast<size_t>(i)] = input.data[static_cast<size_t>(at)];
  }
}

}  // namespace ridge::ops
