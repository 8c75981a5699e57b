// SPDX-License-Identifier: Apache-2.0
// A hash by which processes find out whether they read the same model, without reading all of it.
#pragma once

#include <string>

#include "models/model_file.h"

namespace ridge::models {

// Hashes the configuration's sizes, the names, types and shapes of all tensors, and 4 KiB at the
// begin, in the middle and at the end of each. Returns 32 hex digits.
std::string sampled_hash(const ModelFile& file);

}  // namespace ridge::models
