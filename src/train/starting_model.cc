// SPDX-License-Identifier: Apache-2.0
// Reads weights as fp32 when the trainer asks for them.
#include "train/starting_model.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/openmp_threads.h"

namespace ridge::train {

StartingModel::StartingModel(std::shared_ptr<const models::ModelFile> file,
                             std::function<void(int64_t bytes)> progress)
    : file_(std::move(file)),
      tokenizer_(models::find_tokenizer(*file_)),
      weights_(*file_, std::move(progress)) {}

runtime::TensorSource StartingModel::weights() {
  start_openmp_threads();
  return
      [this](const std::string& name, const Type& type) { return weights_.read(name, type.shape); };
}

nlohmann::ordered_json StartingModel::identity() const {
  return {{"path", file_->path().string()},
          {"bytes", file_->file_bytes()},
          {"weights", weights_.hash()}};
}

}  // namespace ridge::train
