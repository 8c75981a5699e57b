// SPDX-License-Identifier: Apache-2.0
// Draws adapters and writes their files.
#include "train/adapter.h"

#include <cmath>

#include "base/fnv.h"
#include "base/random.h"
#include "files/atomic_file.h"
#include "files/safetensors.h"

namespace ridge::train {
std::vector<float> initial_adapter(std::string_view name, const Shape& shape, uint32_t seed) {
  std::vector<float> values(static_cast<size_t>(shape.elements()), 0.0f);
  if (name.ends_with(passes::kLoraB)) return values;
  const float bound = 1 / std::sqrt(static_cast<float>(shape[1]));
  const uint32_t stream = fnv1a(name, kFnvBasis<uint32_t> ^ seed);  // one for each adapter
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = bound * (2 * uniform_at(stream, static_cast<uint32_t>(i)) - 1);
  return values;
}

void write_adapter(const StepOptions& options,
                   std::span<const SavedTensor> adapters,
                   const std::filesystem::path& folder) {
  const models::AdapterConfig config{options.lora.rank, options.lora.alpha, options.lora.targets,
                                     options.base_model};
  files::write_file(folder / models::kAdapterConfig, models::adapter_config_json(config));
  std::vector<files::TensorSource> sources = sources_of(adapters);
  for (files::TensorSource& each : sources) each.name = models::kAdapterPrefix + each.name;
  files::write_safetensors(folder / models::kAdapterWeights, sources);
}

}  // namespace ridge::train
