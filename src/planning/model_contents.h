// SPDX-License-Identifier: Apache-2.0
// The contents of a model file, checked, and the memory that the model needs.
#pragma once

#include <cstdint>
#include <string>

#include "models/model_file.h"
#include "record/model_contents.h"

namespace ridge::planning {

struct ContentsOptions {
  std::string contexts;  // as typed; empty: 512, 1024, ... and the model's
  int64_t chunk = 512;
  DType cache_dtype = DType::kF32;
};
// Throws a bad-file Error for the first tensor that is missing or has another shape. The file must
// outlive the result.
record::ModelContents model_contents(const models::ModelFile& file, const ContentsOptions& options);

int64_t window_layers(const models::ModelConfig& config);

}  // namespace ridge::planning
