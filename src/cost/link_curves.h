// SPDX-License-Identifier: Apache-2.0
// How long collectives between ranks took by the size of their tensors, and the law that
// predictions use for them. They are measured by `ridge machine --links`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cost/ceilings.h"

namespace ridge::cost {

// One kind of collective; the sizes are of its whole tensors.
struct LinkSample {
  int64_t bytes = 0, sent_bytes = 0;  // a rank sends these
  double ns = 0;                      // with the call
  double bus_bytes_per_ns() const { return static_cast<double>(sent_bytes) / ns; }
};
struct LinkCurve {
  std::string op;                   // "all_reduce"
  std::vector<LinkSample> samples;  // ascending sizes, at least one
};

struct LinkCurves {
  std::string link;   // "Open MPI 4.1.4"
  int64_t ranks = 0;  // on one host
  std::vector<LinkCurve> curves;
  std::string measured_at;  // ISO 8601, UTC

  // The time of a call and the rate that are nearest to all samples, by relative errors.
  LinkRates rates() const;
};

// Throws a bad-file Error that names the field if values are impossible.
std::string to_json(const std::vector<LinkCurves>& links);
std::vector<LinkCurves> link_curves_from_json(std::string_view text, std::string_view origin);

}  // namespace ridge::cost
