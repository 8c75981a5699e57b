// SPDX-License-Identifier: Apache-2.0
// Low-rank adaptation (Hu et al. 2021) as a rewrite of the forward graph: the options, and the
// names of the parameters that it adds. Names, defaults and scale are those of PEFT.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::passes {

struct LoraOptions {
  int64_t rank = 8;
  double alpha = 8;  // the adapter's output is multiplied by alpha / rank
  // The last parts of the names of projections that get an adapter.
  std::vector<std::string> targets = {"q_proj", "v_proj"};

  double scale() const { return alpha / static_cast<double>(rank); }
};

// The projection "m.weight" [out,in] gets "m.lora_A.weight" [rank,in] and "m.lora_B.weight"
// [out,rank].
inline constexpr std::string_view kLoraA = ".lora_A.weight";
inline constexpr std::string_view kLoraB = ".lora_B.weight";
inline bool is_lora(std::string_view parameter) {
  return parameter.ends_with(kLoraA) || parameter.ends_with(kLoraB);
}

}  // namespace ridge::passes
