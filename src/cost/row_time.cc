// SPDX-License-Identifier: Apache-2.0
// Interpolates between the measured widths.
#include "cost/row_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ridge::cost {

std::string row_function(std::string_view op, DType dtype, int64_t width) {
  return fmt::format("{} {} {}", op, name(dtype), width);
}

std::optional<double> row_ns_per_element(const Ceilings& ceilings,
                                         std::string_view op,
                                         DType dtype,
                                         int64_t width) {
  std::array<double, kRowWidths.size()> ns{};
  for (size_t i = 0; i < ns.size(); ++i) {
    const double rate = ceilings.function_elements_per_ns(row_function(op, dtype, kRowWidths[i]));
    if (rate <= 0) return {};
    ns[i] = 1 / rate;
  }
  const auto at = [](int64_t each) { return static_cast<double>(std::max<int64_t>(each, 1)); };
  const double short_width = at(kRowWidths[0]), middle = at(kRowWidths[1]), far = at(kRowWidths[2]);
  if (width >= kRowWidths[1]) {
    const double share = std::log(at(width) / middle) / std::log(far / middle);
    return ns[1] + std::min(1.0, share) * (ns[2] - ns[1]);
  }
  const double row_ns = std::max(0.0, (ns[0] - ns[1]) / (1 / short_width - 1 / middle));
  return ns[1] + row_ns * (1 / at(width) - 1 / middle);
}

}  // namespace ridge::cost
