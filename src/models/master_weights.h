// SPDX-License-Identifier: Apache-2.0
// The weights of a model file as training starts from them: in fp32 and in the form of a folder for
// transformers, whatever types and form the file has.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "models/model_file.h"
#include "models/weight_writer.h"

namespace ridge::models {

class MasterWeights {
 public:
  // The file must outlive this object. `progress` is called with the fp32 bytes of each weight when
  // it is read for the first time; may be empty.
  explicit MasterWeights(const ModelFile& file,
                         std::function<void(int64_t bytes)> progress = nullptr);

  const ModelConfig& config() const { return form_; }
  // Reads a weight by Hugging Face's name. Throws bad-file Errors: the tensor is missing, has
  // another shape, or has a value that is not finite.
  std::vector<float> read(const std::string& parameter, const Shape& shape);
  // 16 digits that tell the weights read so far, their names and fp32 values, from others. Their
  // order does not matter.
  std::string hash() const;
  // The quantized types of the file, "q4_1, q8_0"; empty if there are none.
  std::string quantized_types() const;

 private:
  const ModelFile& file_;
  ModelConfig form_;
  std::function<void(int64_t)> progress_;
  WeightWriter weights_;
  std::set<std::string> read_;
  uint64_t hashes_ = 0;  // the sum of those of weights
};

}  // namespace ridge::models
