// SPDX-License-Identifier: Apache-2.0
// Binding of accumulate, whose output shares the bytes of its first input.
#include <utility>

#include "backends/bind/bindings.h"

namespace ridge::backends::bind {
namespace {

bool takes_term(const Call&, int input, const Layout&) { return input == 1; }

}  // namespace

Kernel accumulate(std::function<Launch(const Operand& term, const Operand& total)> add) {
  return {.op = "accumulate",
          .bind = [add = std::move(add)](
                      const BindCall& call) { return add(call.inputs[1], call.outputs[0]); },
          .takes_input = takes_term};
}

}  // namespace ridge::backends::bind
