// SPDX-License-Identifier: Apache-2.0
// Makes the op table from the list and the ops that the program added.
#include "ops/registry.h"

#include "base/error.h"
#include "ops/pointwise.h"

namespace ridge::ops {

namespace {

std::vector<const Op*> added_ops;
bool is_table_made = false;

}  // namespace

void add_op(const Op& op) {
  RIDGE_CHECK(!is_table_made, "the table was used before {} was added", op.name);
  added_ops.push_back(&op);
}

const OpTable& table() {
  static const OpTable table = [] {
    std::vector<const Op*> ops;
    for (const Op& op : pointwise_ops()) ops.push_back(&op);
#define RIDGE_LIST(name) ops.push_back(&name##_op());
    RIDGE_OPS(RIDGE_LIST)
#undef RIDGE_LIST
    ops.insert(ops.end(), added_ops.begin(), added_ops.end());
    is_table_made = true;
    return OpTable(std::move(ops));
  }();
  return table;
}

}  // namespace ridge::ops
