// SPDX-License-Identifier: Apache-2.0
// The rotation of one head in double precision, for the references of rope and rope_qkv.
#pragma once

#include <cstdint>

namespace ridge::ops {

// y = x rotated by the angles whose cos and sin [E/2] are given; `inverse` rotates back.
void rotate_row(const double* x,
                const double* cos,
                const double* sin,
                int64_t head_size,
                bool interleaved,
                bool inverse,
                double* y);

}  // namespace ridge::ops
