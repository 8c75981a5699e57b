// SPDX-License-Identifier: Apache-2.0
// Reads a published model for training. Not a subcommand.
#include "apps/starting_model.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/openmp_threads.h"

namespace ridge::apps {
namespace {

constexpr int64_t kMasterBytes = 4;  // of a weight in fp32

}  // namespace

StartingModel::StartingModel(std::shared_ptr<const models::ModelFile> file,
                             const TerminalOptions& terminal)
    : file_(std::move(file)),
      tokenizer_(models::find_tokenizer(*file_)),
      progress_("load", kMasterBytes * file_->config().parameters(), "bytes", terminal),
      weights_(*file_, [this](int64_t bytes) { progress_.tick(bytes); }) {}

runtime::TensorSource StartingModel::weights() {
  start_openmp_threads();
  return
      [this](const std::string& name, const Type& type) { return weights_.read(name, type.shape); };
}

void StartingModel::tell_types() const {
  const std::string types = weights_.quantized_types();
  if (!types.empty())
    fmt::print(stderr, "note: weights in {} are dequantized: training keeps them in fp32\n", types);
}

nlohmann::ordered_json StartingModel::identity() const {
  return {{"path", file_->path().string()},
          {"bytes", file_->file_bytes()},
          {"weights", weights_.hash()}};
}

}  // namespace ridge::apps
