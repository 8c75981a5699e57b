// SPDX-License-Identifier: Apache-2.0
// Draws adapters and writes their files.
#include "train/adapter.h"

#include <cmath>

#include "base/random.h"
#include "files/atomic_file.h"
#include "files/safetensors.h"

namespace ridge::train {
namespace {

// FNV-1a, so that each adapter has a stream of its own.
uint32_t stream_of(uint32_t seed, std::string_view name) {
  uint32_t hash = 2166136261u ^ seed;
  for (const char letter : name) hash = (hash ^ static_cast<uint8_t>(letter)) * 16777619u;
  return hash;
}

}  // namespace

std::vector<float> initial_adapter(std::string_view name, const Shape& shape, uint32_t seed) {
  std::vector<float> values(static_cast<size_t>(shape.elements()), 0.0f);
  if (name.ends_with(passes::kLoraB)) return values;
  const float bound = 1 / std::sqrt(static_cast<float>(shape[1]));
  const uint32_t stream = stream_of(seed, name);
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
