// SPDX-License-Identifier: Apache-2.0
// Keeps one list per slot, sorted by token.
#include "serve/token_biases.h"

#include <algorithm>

#include "base/error.h"
#include "models/inference_names.h"

namespace ridge::serve {

TokenBiases::TokenBiases(int64_t slots, int64_t vocabulary, runtime::Store& store)
    : vocabulary_(vocabulary), store_(store), slots_(static_cast<size_t>(slots)) {
  store_.require(models::kBiased, {DType::kI32, {slots, models::kMostBiases}});
  store_.require(models::kBiases, {DType::kF32, {slots, models::kMostBiases}});
}

// Returns the token's entry, which is added if there is room, or null.
TokenBiases::TokenBias* TokenBiases::at(SlotBiases& slot, int32_t id) {
  const auto found = std::ranges::lower_bound(slot.tokens, id, {}, &TokenBias::id);
  if (found != slot.tokens.end() && found->id == id) return &*found;
  if (std::ssize(slot.tokens) == models::kMostBiases) return nullptr;
  return &*slot.tokens.insert(found, {id});
}

void TokenBiases::begin(int64_t slot, const SamplingOptions& options) {
  for (const LogitBias& each : options.logit_bias)
    if (each.id < 0 || each.id >= vocabulary_)
      throw usage_error("[logit-bias] expected ids from 0 to {}, got {}", vocabulary_ - 1, each.id);
  SlotBiases& s = slots_[static_cast<size_t>(slot)];
  s.presence = options.presence_penalty;
  s.frequency = options.frequency_penalty;
  s.tokens.clear();
  if (s.presence != 0 || s.frequency != 0 || !options.logit_bias.empty())
    s.tokens.reserve(static_cast<size_t>(models::kMostBiases));
  for (const LogitBias& each : options.logit_bias) at(s, each.id)->bias = each.bias;
  s.has_changed = true;
}

void TokenBiases::count(int64_t slot, int32_t token) {
  SlotBiases& s = slots_[static_cast<size_t>(slot)];
  if (token < 0 || (s.presence == 0 && s.frequency == 0)) return;
  TokenBias* counted = at(s, token);
  if (counted == nullptr) return;
  ++counted->count;
  s.has_changed = true;
}

void TokenBiases::write() {
  for (size_t i = 0; i < slots_.size(); ++i) {
    SlotBiases& s = slots_[i];
    if (!s.has_changed) continue;
    s.has_changed = false;
    if (s.tokens.empty()) continue;
    ids_.clear();
    amounts_.clear();
    for (const TokenBias& each : s.tokens) {
      const double penalty =
          each.count > 0 ? s.presence + s.frequency * static_cast<double>(each.count) : 0;
      ids_.push_back(each.id);
      amounts_.push_back(static_cast<float>(each.bias - penalty));
    }
    const int64_t begin = static_cast<int64_t>(i) * models::kMostBiases;
    const auto bytes = [](const auto& values) {
      return static_cast<int64_t>(values.size() * sizeof values[0]);
    };
    store_.write_part(models::kBiased, begin * static_cast<int64_t>(sizeof(int32_t)), ids_.data(),
                      bytes(ids_));
    store_.write_part(models::kBiases, begin * static_cast<int64_t>(sizeof(float)), amounts_.data(),
                      bytes(amounts_));
  }
}

}  // namespace ridge::serve
