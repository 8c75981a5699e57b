// SPDX-License-Identifier: Apache-2.0
// Derives figures from others.
#include "record/training_record.h"

#include <cmath>

namespace ridge::record {

double ValidationMetrics::perplexity() const { return std::exp(loss); }

}  // namespace ridge::record
