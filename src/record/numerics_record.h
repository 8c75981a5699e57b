// SPDX-License-Identifier: Apache-2.0
// The range of the numbers of one training step, by classes of tensors, and what narrower types
// would make of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace ridge::record {

struct NumberRange {
  int64_t count = 0;
  int64_t zeros = 0;
  int64_t subnormals = 0;  // below the smallest normal number of their own type, not 0
  int64_t not_finite = 0;
  double least = 0, greatest = 0;  // magnitudes of finite numbers other than 0; 0: there are none
  double squares = 0;              // sum over the finite ones
  // Rounded to fp16 or bf16: other numbers that would become 0 or infinite.
  int64_t f16_underflows = 0, f16_overflows = 0;
  int64_t bf16_underflows = 0, bf16_overflows = 0;

  void add(std::span<const float> values, DType type);
  double rms() const;
  double share(int64_t part) const;
};

struct NumericsRow {
  std::string kind, scope, dtype;
  int64_t tensors = 0;
  NumberRange range;
};

struct NumericsRecord {
  int64_t step = 0;
  double loss_scale = 0;  // makes the gradients of the step larger; 0: none
  std::vector<NumericsRow> rows;
};

template <class See>
void figures(const See& see, const NumericsRow& row) {
  const NumberRange& r = row.range;
  see({"kind", "", "weights, gradients, first moments, second moments, activations"}, row.kind);
  see({"scope", "", "attention or mlp; layers together"}, row.scope);
  see({"dtype", "", "as stored"}, row.dtype);
  see("tensors", row.tensors), see("count", r.count), see("least", r.least), see("rms", r.rms()),
      see("greatest", r.greatest), see("zeros", r.zeros), see("subnormals", r.subnormals),
      see("not_finite", r.not_finite), see("f16_underflows", r.f16_underflows),
      see("f16_overflows", r.f16_overflows), see("bf16_underflows", r.bf16_underflows),
      see("bf16_overflows", r.bf16_overflows);
}

}  // namespace ridge::record
