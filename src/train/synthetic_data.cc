// SPDX-License-Identifier: Apache-2.0
// Draws in the order of the published run's constructors, initialization and data set.
#include "train/synthetic_data.h"

#include <cmath>
#include <span>

#include "base/error.h"
#include "base/fnv.h"
#include "models/parameter_list.h"
#include "passes/lora.h"

namespace ridge::train {
namespace {

constexpr float kInitialStd = 0.02f;
constexpr int64_t kRows = 1000;
constexpr const char* kTable = "model.embed_tokens.weight";

// The published constructors draw once for each element, and all of these values are overwritten.
// It has a table and a head, also where they are tied.
int64_t elements_constructed(std::span<const models::Parameter> parameters, bool tied_head) {
  int64_t elements = 0;
  for (const models::Parameter& each : parameters) {
    if (each.shape.rank() > 1) elements += each.shape.elements();
    if (tied_head && each.name == kTable) elements += each.shape.elements();
  }
  return elements;
}

}  // namespace

std::vector<InitialWeight> initial_weights(const models::ModelConfig& c, uint32_t seed) {
  Random random(seed);
  const std::vector<models::Parameter> parameters = models::parameters_of(c);
  random.skip(elements_constructed(parameters, c.tied_head));
  const auto one = static_cast<float>(1 - c.norm_offset);
  std::vector<InitialWeight> all;
  const auto add_drawn = [&](const std::string& name, int64_t elements) {
    all.push_back({name, elements, 0, random});
    random.skip(Random::normal_draws(elements));
  };
  for (const models::Parameter& each : parameters) {
    const int64_t elements = each.shape.elements();
    if (each.shape.rank() == 1)  // Biases start at zero; the published model has none.
      all.push_back({each.name, elements, models::is_norm(each.name) ? one : 0.0f});
    else if (each.name != kTable || !c.tied_head)
      add_drawn(each.name, elements);
    else
      random.skip(Random::normal_draws(elements));
  }
  // The head is initialized last. If it is tied, its values are the embedding table.
  if (c.tied_head) add_drawn(kTable, c.vocabulary * c.hidden);
  return all;
}

std::vector<float> InitialWeight::draw() const {
  std::vector<float> data(static_cast<size_t>(elements), constant);
  if (from) Random(*from).fill_normal(data, kInitialStd);
  return data;
}

std::vector<float> initial_adapter(std::string_view name, const Shape& shape, uint32_t seed) {
  std::vector<float> values(static_cast<size_t>(shape.elements()), 0.0f);
  if (name.ends_with(passes::kLoraB)) return values;
  const float bound = 1 / std::sqrt(static_cast<float>(shape[1]));
  const uint32_t stream = fnv1a(name, kFnvBasis<uint32_t> ^ seed);  // one for each adapter
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = bound * (2 * uniform_at(stream, static_cast<uint32_t>(i)) - 1);
  return values;
}

SyntheticData::SyntheticData(int64_t vocabulary, int64_t sequence, uint32_t seed)
    : random_(seed), sequence_(sequence) {
  if (vocabulary < 2 || sequence < 1)
    throw usage_error("[data] expected a vocabulary >= 2 and a sequence >= 1, got {} and {}",
                      vocabulary, sequence);
  rows_.resize(kRows);
  for (auto& row : rows_) {
    row.resize(static_cast<size_t>(sequence + 1));
    for (int32_t& id : row)
      id = 1 + static_cast<int32_t>(random_.below(static_cast<uint32_t>(vocabulary - 1)));
  }
}

Batch SyntheticData::next(int64_t batch_size) {
  if (batch_size > kRows)
    throw usage_error("[data] expected a batch of at most {} rows, got {}", kRows, batch_size);
  std::vector<uint32_t> order = random_.permutation(kRows);
  Batch batch;
  batch.rows.assign(order.begin(), order.begin() + batch_size);
  for (uint32_t index : batch.rows) {
    const std::vector<int32_t>& row = rows_[index];
    for (int64_t t = 0; t < sequence_; ++t) {
      batch.ids.push_back(row[static_cast<size_t>(t)]);
      batch.positions.push_back(static_cast<int32_t>(t));
      batch.labels.push_back(t + 2 <= sequence_ ? row[static_cast<size_t>(t + 2)] : -1);
    }
  }
  return batch;
}

}  // namespace ridge::train
