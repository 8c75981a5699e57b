// SPDX-License-Identifier: Apache-2.0
// Where the document of a token begins, in a row that several documents share.
#pragma once

#include <cstdint>

#include "backends/kernels/strided_rows.h"

namespace ridge::backends {

// `token` is a place in the row, `position` the token's place in its document. Stays in the row
// whatever the position is.
RIDGE_HOST_DEVICE inline int64_t document_begin(int64_t token, int32_t position) {
  if (position < 0) return token;
  return position > token ? 0 : token - position;
}

}  // namespace ridge::backends
