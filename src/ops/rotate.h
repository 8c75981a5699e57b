// SPDX-License-Identifier: Apache-2.0
// The rotation of one head in double precision, for the references of ops that rotate.
#pragma once

#include <cstdint>

namespace ridge::ops {

// Rotates by angles given by their cos and sin [E/2].
struct Rotation {
  const double *cos, *sin;
  int64_t head_size;
  bool interleaved;
  bool inverse = false;  // rotate back
  // y[E] = x[E] rotated.
  void rotate(const double* x, double* y) const;
};

}  // namespace ridge::ops
