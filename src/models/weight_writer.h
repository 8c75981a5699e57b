// SPDX-License-Identifier: Apache-2.0
// Converts a model's weights on the way from a file to a writer: row order, norm offset and element
// type. A model that is only a shape gets random weights. One tensor is in memory at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "files/tensor_table.h"
#include "models/adapter.h"
#include "models/model_file.h"
#include "models/parameter_list.h"

namespace ridge::models {

class WeightWriter {
 public:
  // File and form must outlive the results of source(). `seed` is that of random weights.
  // `progress` is called with the bytes written; may be empty. The adapter is merged; may be null.
  WeightWriter(const ModelFile& file,
               const ModelConfig& form,
               uint64_t seed,
               std::function<void(int64_t bytes)> progress,
               const Adapter* adapter = nullptr)
      : file_(file), form_(form), seed_(seed), progress_(std::move(progress)), adapter_(adapter) {}

  // The tensor to write under `name`. Reading it throws a bad-file Error that names the tensor and
  // the element that is not finite or that `type` cannot hold.
  files::TensorSource source(const Parameter& parameter, std::string name, DType type);

 private:
  // `order`, if it is not empty, says which column of the model each column of `from` is.
  std::span<const std::byte> convert(const Parameter& parameter,
                                     const files::FileTensor& from,
                                     std::span<const int32_t> order,
                                     DType type);
  std::span<const std::byte> draw(const Parameter& parameter, DType type);

  const ModelFile& file_;
  const ModelConfig& form_;
  uint64_t seed_;
  std::function<void(int64_t)> progress_;
  const Adapter* adapter_;
  std::vector<std::byte> buffer_;
};

}  // namespace ridge::models
