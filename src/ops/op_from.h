// SPDX-License-Identifier: Apache-2.0
// Makes an op from one struct: its declaration (name, operands, attributes) and its functions, each
// named as the field of `Op` that it fills. What the struct lacks stays at its default.
#pragma once

#include "graph/op.h"

namespace ridge::ops {

template <typename Definition>
const Op& op_from() {
  static const Op op = [] {
    Op made = Definition::declaration();
    if constexpr (requires { Definition::infer; }) made.infer = Definition::infer;
    if constexpr (requires { Definition::work; }) made.work = Definition::work;
    if constexpr (requires { Definition::traffic; }) made.traffic = Definition::traffic;
    if constexpr (requires { Definition::model_work; }) made.model_work = Definition::model_work;
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

}  // namespace ridge::ops
