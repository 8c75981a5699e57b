// SPDX-License-Identifier: Apache-2.0
// Draws normals by Box-Muller from uniform numbers that depend on a counter.
#include "models/random_weights.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

#include "base/fnv.h"
#include "base/random.h"

namespace ridge::models {
namespace {

constexpr float kDeviation = 0.02f;

// Each tensor has a stream of its own.
uint32_t stream_of(uint64_t seed, std::string_view name) {
  std::string bytes;  // it holds the seed, from the lowest byte on
  for (int byte = 0; byte < 8; ++byte) bytes += static_cast<char>(seed >> 8 * byte);
  return fnv1a(name, fnv1a<uint32_t>(bytes));
}

}  // namespace

RandomWeights::RandomWeights(const Parameter& parameter, double norm_offset, uint64_t seed)
    : stream_(stream_of(seed, parameter.name)),
      is_norm_(is_norm(parameter.name)),
      norm_(static_cast<float>(1 - norm_offset)) {}

void RandomWeights::draw(int64_t row, std::span<float> out) const {
  if (is_norm_) return std::fill(out.begin(), out.end(), norm_);
  // The counter has 32 bits; longer tensors continue in the next stream.
  const auto uniform = [&](uint64_t at) {
    return uniform_at(stream_ + static_cast<uint32_t>(at >> 32), static_cast<uint32_t>(at));
  };
  // The row begins at an even counter, because numbers come in pairs.
  const uint64_t width = out.size() + out.size() % 2, begin = static_cast<uint64_t>(row) * width;
  for (uint64_t i = 0; i < out.size(); i += 2) {
    const float radius = kDeviation * std::sqrt(-2 * std::log(1 - uniform(begin + i)));
    const float angle = 2 * std::numbers::pi_v<float> * uniform(begin + i + 1);
    out[i] = radius * std::cos(angle);
    if (i + 1 < out.size()) out[i + 1] = radius * std::sin(angle);
  }
}

}  // namespace ridge::models
