// SPDX-License-Identifier: Apache-2.0
// Has the system give memory its pages before it is used.
#pragma once

#include <cstddef>
#include <span>

namespace ridge {
inline namespace base {

// Writes a byte of each page of writable memory, by OpenMP's threads, and leaves its content as it
// is. Nobody else may write to it meanwhile.
void touch_pages(std::span<std::byte> memory);

}  // namespace base
}  // namespace ridge
