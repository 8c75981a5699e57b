// SPDX-License-Identifier: Apache-2.0
// causal_mask: each row is three runs, masked, copied and masked. Copies and fills need no
// intrinsics.
#include "backends/cpu/kernels/kernels.h"

#include <algorithm>

#include "backends/cpu/kernels/element.h"
#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/typed_dispatch.h"
#include "backends/kernels/document_begin.h"

namespace ridge::backends::cpu {

// Mapping: rows in static ranges over threads. Bound: memory, 2 sizeof(T) bytes per score.
template <typename T>
void causal_mask(const CausalMask<T>& call) {
  T hidden{};
  narrow_to(call.value, hidden);
  int64_t bytes = bytes_of<T>(2 * call.rows * call.columns);
  for_each_range(call.rows, parts_for(bytes), [&](Range range) {
    for (int64_t r = range.begin; r < range.end; ++r) {
      int64_t query = r % call.columns;
      int64_t first = call.window > 0 ? std::max<int64_t>(query - call.window + 1, 0) : 0;
      if (call.positions != nullptr) {
        const int64_t token = r / call.rows_per_sequence * call.columns + query;
        first = std::max(first, document_begin(query, call.positions[token]));
      }
      const T* x = call.x[r];
      T* y = call.y[r];
      std::fill(y, y + first, hidden);
      if (x != y) std::copy(x + first, x + query + 1, y + first);
      std::fill(y + query + 1, y + call.columns, hidden);
    }
  });
}
RIDGE_INSTANCES(RIDGE_FLOATS, void, causal_mask, CausalMask)

}  // namespace ridge::backends::cpu
