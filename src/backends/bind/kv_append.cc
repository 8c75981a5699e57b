// SPDX-License-Identifier: Apache-2.0
// Binding of kv_append.
#include <utility>

#include "backends/bind/bindings.h"
#include "backends/bind/cache_operands.h"
#include "backends/row_layout.h"

namespace ridge::backends::bind {
namespace {

constexpr auto append_call = []<typename T, typename C>(const BindCall& call) -> KvAppend<T, C> {
  return {cells_of(call, call.inputs[0].type.shape, 4), token_heads<const T>(call.inputs[2]),
          token_heads<const T>(call.inputs[3]), cache_of<C>(call, 0, 7), cache_of<C>(call, 1, 8)};
};

bool takes_appended(const Call& call, int input, const Layout& layout) {
  return (input == 2 || input == 3) &&
         lies_in_heads(call.inputs[static_cast<size_t>(input)].shape, layout);
}

}  // namespace

Kernel kv_append(CacheLaunchers<KvAppend> launchers) {
  return with_cache({.op = "kv_append", .bind = {}, .takes_input = takes_appended}, {2, 0},
                    std::move(launchers), append_call);
}

}  // namespace ridge::backends::bind
