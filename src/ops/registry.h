// SPDX-License-Identifier: Apache-2.0
// The explicit ordered list of all ops.
#pragma once

#include "graph/op.h"

namespace ridge::ops {

const OpTable& table();

}  // namespace ridge::ops
