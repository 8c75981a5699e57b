// SPDX-License-Identifier: Apache-2.0
// The names of an inference graph's inputs and states, which the host writes and reads. The name of
// an input whose extent depends on the bucket includes that extent, because all graphs of a program
// share one store.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace ridge::models {

inline constexpr std::string_view kIds = "ids", kPositions = "positions", kSlots = "slots",
                                  kLabels = "labels";
// "ids.512" for N = 512.
inline std::string bucket_input(std::string_view name, int64_t extent) {
  return fmt::format("{}.{}", name, extent);
}

// Their extent depends on the bucket too: the number of rows.
inline constexpr std::string_view kRows = "rows", kRowSlots = "row_slots";
inline constexpr const char* kNextPositions = "next_positions";
inline constexpr const char* kSampling = "sampling";
inline constexpr const char* kSeeds = "seeds";
inline constexpr const char* kBiased = "biased";
inline constexpr const char* kBiases = "biases";
inline constexpr int64_t kSamplingSettings = 6;
// Tokens of a slot whose logits can be biased.
inline constexpr int64_t kMostBiases = 4096;
inline constexpr const char* kBlockTable = "block_table";
inline constexpr const char* kWindowBlockTable = "window_block_table";

// States: the last sampled token of each slot i32[S], and its recent tokens i32[S,kRecentTokens]
// for the repeat penalty (cell p mod kRecentTokens holds the token at position p, -1 = none).
inline constexpr const char* kTokens = "tokens";
inline constexpr const char* kRecent = "recent";
inline constexpr int64_t kRecentTokens = 64;

inline constexpr std::string_view kCacheStates = "cache.";
inline std::string cache_state(int64_t layer, std::string_view part) {
  return fmt::format("{}{}.{}", kCacheStates, layer, part);
}

}  // namespace ridge::models
