// SPDX-License-Identifier: Apache-2.0
// The level and the switches of passes as the user names them.
#pragma once

#include <string>
#include <vector>

#include "passes/pipeline.h"

namespace ridge::passes {

struct LevelOptions {
  std::string level = "compiled";
  std::string switches = {};
  std::string dtype = "fp32";
  bool tf32 = false;                // instead of a dtype
  std::string attention = "level";  // see bench/attention_choice.h
};
// The switches, and the pass that the dtype needs. Throws usage Errors for unknown names.
std::string switch_text(const LevelOptions& options);
// The text with one more switch, or as it is if `more` is empty.
std::string with_switch(const std::string& switches, const std::string& more);

// "all" or names of levels, in the given order. Throws a usage Error that names the option.
std::vector<std::string> parse_levels(const std::string& text, const char* option);

}  // namespace ridge::passes
