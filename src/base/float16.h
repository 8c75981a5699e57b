// SPDX-License-Identifier: Apache-2.0
// The element type of kernels on fp16. A bare uint16_t is one of bf16.
#pragma once

#include <cstdint>

namespace ridge {
inline namespace base {

struct Float16 {
  uint16_t bits;
};

}  // namespace base
}  // namespace ridge
