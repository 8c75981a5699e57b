// SPDX-License-Identifier: Apache-2.0
// A trainer's tensors in the form of a model file, and back: under transformers' names and in its
// order of the rows of q and k, whatever the level stores.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/shape.h"
#include "files/tensor_table.h"
#include "train/trainer.h"

namespace ridge::train {

struct SavedTensor {
  std::string name;  // as in a model file
  Shape shape;
  std::vector<float> values;
};

// Every rank calls the two that read tensors, because each may have a part of them.
// The weights, or only the adapters where nothing else is trained; or the moments that are stored
// under a parameter's name and `suffix`. They are in the order of the names.
// `keeps` may leave out tensors by their names and shapes.
using KeepsTensor = std::function<bool(const std::string& name, const Shape& shape)>;
std::vector<SavedTensor> saved_tensors(const Trainer& trainer,
                                       std::string_view suffix = "",
                                       const KeepsTensor& keeps = {});

// All weights, with trained adapters merged into them.
std::vector<SavedTensor> whole_model(const Trainer& trainer);

// Fills the same from the tensors that `find` returns by their names in a model file.
using SavedLookup = std::function<std::vector<float>(const std::string& name, const Shape& shape)>;
void restore_tensors(Trainer& trainer, const SavedLookup& find, std::string_view suffix = "");

// The configuration that is saved with the weights.
models::ModelConfig saved_config(const Trainer& trainer);

// For files::write_safetensors. The tensors must outlive the result.
std::vector<files::TensorSource> sources_of(std::span<const SavedTensor> tensors,
                                            std::string_view suffix = "");

}  // namespace ridge::train
