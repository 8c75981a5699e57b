// SPDX-License-Identifier: Apache-2.0
// Makes the op table from the list.
#include "ops/registry.h"

#include "ops/pointwise.h"

namespace ridge::ops {

const OpTable& table() {
  static const OpTable table = [] {
    std::vector<const Op*> ops;
    for (const Op& op : pointwise_ops()) ops.push_back(&op);
#define RIDGE_LIST(name) ops.push_back(&name##_op());
    RIDGE_OPS(RIDGE_LIST)
#undef RIDGE_LIST
    return OpTable(std::move(ops));
  }();
  return table;
}

}  // namespace ridge::ops
