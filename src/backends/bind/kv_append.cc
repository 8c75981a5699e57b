// SPDX-License-Identifier: Apache-2.0
// Binding of kv_append.
#include <utility>

#include "backends/bind/bindings.h"
#include "backends/bind/cache_operands.h"
#include "backends/row_layout.h"

namespace ridge::backends::bind {
namespace {

template <typename T>
KvAppend<T> append_call(const BindCall& call) {
  return {cells_of(call, call.inputs[0].type.shape, 4), token_heads<const T>(call.inputs[2]),
          token_heads<const T>(call.inputs[3]), cache_of<T>(call.inputs[0]),
          cache_of<T>(call.inputs[1])};
}

bool takes_appended(const Call& call, int input, const Layout& layout) {
  return (input == 2 || input == 3) &&
         lies_in_heads(call.inputs[static_cast<size_t>(input)].shape, layout);
}

}  // namespace

Kernel kv_append(TypedLaunchers<KvAppend> launchers) {
  return {.op = "kv_append",
          .bind = bind_typed(std::move(launchers), append_call<float>, append_call<uint16_t>),
          .takes_input = takes_appended};
}

}  // namespace ridge::backends::bind
