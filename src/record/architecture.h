// SPDX-License-Identifier: Apache-2.0
// The architecture of a model, for its record.
#pragma once

#include "models/config.h"
#include "record/run_record.h"

namespace ridge::record {

Architecture architecture(const models::ModelConfig& config);

}  // namespace ridge::record
