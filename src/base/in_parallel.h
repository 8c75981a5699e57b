// SPDX-License-Identifier: Apache-2.0
// Independent work on several threads.
#pragma once

#include <cstdint>
#include <functional>

namespace ridge {
inline namespace base {

// Calls work(0) to work(count - 1), each once, on as many threads as the caller's parallel regions
// have, each of which has as many in its own. Once one throws, no other begins, and the exception
// of the first of them is thrown again after all have ended.
void in_parallel(int64_t count, const std::function<void(int64_t)>& work);

}  // namespace base
}  // namespace ridge
