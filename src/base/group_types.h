// SPDX-License-Identifier: Apache-2.0
// The element types of groups with a scale and a zero point (block_formats.h), and their tiles
// (repacked_tiles.h, fragment_tiles.h). They are values of DType after those of its list; a switch
// over DType cannot name them, so code asks for them before it.
#pragma once

#include "base/dtype.h"

namespace ridge {
inline namespace base {

inline constexpr int kFirstGroupType = static_cast<int>(DType::kQ6_Kx8) + 1;

// Fragment tiles come first: they follow those of GGUF's types.
inline constexpr auto kQ4_G32x8 = static_cast<DType>(kFirstGroupType),
                      kQ4_G128x8 = static_cast<DType>(kFirstGroupType + 1),
                      kQ4_G32 = static_cast<DType>(kFirstGroupType + 2),
                      kQ4_G128 = static_cast<DType>(kFirstGroupType + 3),
                      kQ4_G32x16 = static_cast<DType>(kFirstGroupType + 4),
                      kQ4_G128x16 = static_cast<DType>(kFirstGroupType + 5);

}  // namespace base
}  // namespace ridge
