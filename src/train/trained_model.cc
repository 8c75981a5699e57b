// SPDX-License-Identifier: Apache-2.0
// Recovers the parameters through the inverse of the load graph, and reorders the rows of q and k
// as transformers expects them.
#include "train/trained_model.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/finite.h"
#include "files/atomic_file.h"
#include "files/atomic_folder.h"
#include "files/safetensors.h"
#include "models/config_json.h"
#include "models/parameter_list.h"
#include "models/row_order.h"
#include "runtime/load.h"

namespace ridge::train {
namespace {

struct Weight {
  Shape shape;
  std::vector<float> values;
};

std::vector<float> reordered(const Weight& weight, const models::RowOrder& order) {
  std::vector<float> out(weight.values.size());
  int64_t rows = weight.shape[0], width = weight.shape.elements() / rows;
  for (int64_t row = 0; row < rows; ++row)
    std::copy_n(weight.values.begin() + row * width, width, out.begin() + order.at(row) * width);
  return out;
}

}  // namespace

void save_model(Trainer& trainer, const std::filesystem::path& folder) {
  models::ModelConfig form = trainer.config();
  models::RowOrder order(form.head_size, form.rope_interleaved, false);
  form.rope_interleaved = false;
  std::map<std::string, Weight> weights;
  runtime::save_parameters(
      trainer.graphs().load, trainer.store(),
      [&](const std::string& name, const Type& type, std::vector<float> values) {
        if (!all_finite(values))
          throw runtime_error("[{}] nothing is saved: {} has values that are not finite",
                              folder.string(), name);
        Weight& weight = weights[name] = {type.shape, std::move(values)};
        if (models::is_rotated(name)) weight.values = reordered(weight, order);
      });
  std::vector<files::TensorSource> tensors;
  for (const auto& [name, weight] : weights)
    tensors.push_back({name, DType::kF32, weight.shape, [&weight = weight] {
                         return std::as_bytes(std::span<const float>(weight.values));
                       }});
  files::AtomicFolder made(folder);
  files::write_file(made.inside() / "config.json", models::config_json(form, DType::kF32, nullptr));
  files::write_safetensors(made.inside() / "model.safetensors", tensors);
  made.commit();
}

}  // namespace ridge::train
