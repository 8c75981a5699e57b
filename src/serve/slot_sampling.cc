// SPDX-License-Identifier: Apache-2.0
// Transfers the inputs and outputs of the op `sample`.
#include "serve/slot_sampling.h"

#include <algorithm>
#include <cstring>

#include "models/inference_names.h"

namespace ridge::serve {
namespace {

constexpr size_t kSettings = models::kSamplingSettings;

int64_t bytes_of(const auto& values) {
  return static_cast<int64_t>(values.size() * sizeof values[0]);
}

}  // namespace

SlotSampling::SlotSampling(int64_t slots, int64_t vocabulary, runtime::Store& store)
    : store_(store),
      biases_(slots, vocabulary, store),
      seeds_(static_cast<size_t>(slots)),
      tokens_(seeds_.size()),
      settings_(seeds_.size() * kSettings) {
  for (const char* name : {models::kTokens, models::kNextPositions, models::kSeeds})
    store.require(name, {DType::kI32, {slots}});
  store.require(models::kRecent, {DType::kI32, {slots, models::kRecentTokens}});
  store.require(models::kSampling, {DType::kF32, {slots, models::kSamplingSettings}});
}

void SlotSampling::begin(int64_t slot,
                         const SamplingOptions& o,
                         std::span<const int32_t> ids,
                         int64_t generated) {
  biases_.begin(slot, o);
  for (int32_t id : ids.last(static_cast<size_t>(generated))) biases_.count(slot, id);
  const auto at = static_cast<size_t>(slot);
  seeds_[at] = static_cast<int32_t>(static_cast<uint32_t>(o.seed));
  const float values[kSettings] = {
      static_cast<float>(o.temperature),
      static_cast<float>(o.top_k),
      static_cast<float>(o.top_p),
      static_cast<float>(o.min_p),
      o.repeat_penalty == 1 ? 0.0f : static_cast<float>(o.repeat_penalty),
      0};
  std::ranges::copy(values, &settings_[at * kSettings]);
  int32_t recent[models::kRecentTokens];
  std::ranges::fill(recent, -1);
  for (size_t p = 0; p < ids.size(); ++p) recent[p % models::kRecentTokens] = ids[p];
  store_.write_part(models::kRecent, slot * static_cast<int64_t>(sizeof recent), recent,
                    sizeof recent);
}

void SlotSampling::write(std::span<const int32_t> next_positions) {
  const auto write = [&](const char* name, const auto& values) {
    store_.write_input(name, values.data(), bytes_of(values));
  };
  write(models::kNextPositions, next_positions);
  write(models::kSeeds, seeds_);
  biases_.write();
  for (size_t slot = 0; slot < seeds_.size(); ++slot)
    settings_[slot * kSettings + kSettings - 1] =
        static_cast<float>(biases_.size(static_cast<int64_t>(slot)));
  write(models::kSampling, settings_);
}

SampledTokens SlotSampling::start_read() const {
  SampledTokens sampled{store_.start_read(models::kTokens), {}};
  if (sampled.copy != nullptr) return sampled;
  sampled.tokens.resize(tokens_.size());
  store_.read(models::kTokens, sampled.tokens.data(), bytes_of(sampled.tokens));
  return sampled;
}

void SlotSampling::finish_read(SampledTokens sampled) {
  if (sampled.copy == nullptr) {
    tokens_ = std::move(sampled.tokens);
  } else {
    const std::span<const std::byte> bytes = sampled.copy->wait();
    std::memcpy(tokens_.data(), bytes.data(), bytes.size());
  }
}

void SlotSampling::read() { store_.read(models::kTokens, tokens_.data(), bytes_of(tokens_)); }

int32_t SlotSampling::take(int64_t slot) {
  biases_.count(slot, token(slot));
  return token(slot);
}

}  // namespace ridge::serve
