// SPDX-License-Identifier: Apache-2.0
// The rotation of one head in double precision, for the references of ops that rotate.
#pragma once

#include <cstdint>

namespace ridge::ops {

// By the angles whose cos and sin [E/2] are given.
struct Rotation {
  const double *cos, *sin;
  int64_t head_size;
  bool interleaved;
  bool inverse = false;  // rotates back
  // y[E] = x[E] rotated.
  void rotate(const double* x, double* y) const;
};

}  // namespace ridge::ops
