// SPDX-License-Identifier: Apache-2.0
// Turns a dtype into a switch, and a list into names of levels.
#include "passes/level_options.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "base/split.h"

namespace ridge::passes {

std::string with_switch(const std::string& switches, const std::string& more) {
  return switches + (switches.empty() || more.empty() ? "" : ",") + more;
}

std::string switch_text(const LevelOptions& options) {
  const std::string dtype = options.tf32 ? "tf32" : options.dtype;
  if (dtype == "fp32" || dtype == "f32") return options.switches;
  const char* switched = dtype == "bf16"                     ? "+autocast_bf16"
                         : dtype == "fp16" || dtype == "f16" ? "+autocast_f16"
                         : dtype == "tf32"                   ? "+tf32"
                                                             : nullptr;
  if (switched == nullptr)
    throw usage_error("[dtype] expected fp32, tf32, bf16 or fp16, got {}", printable(dtype));
  return with_switch(options.switches, switched);
}

std::vector<std::string> parse_levels(const std::string& text, const char* option) {
  std::vector<std::string> known;
  for (const Level& level : levels()) known.emplace_back(level.name);
  if (text == "all") return known;
  std::vector<std::string> names = split(text);
  for (const std::string& each : names)
    if (std::find(known.begin(), known.end(), each) == known.end())
      throw usage_error("[{}] expected all or some of {}, got {}", option, fmt::join(known, ", "),
                        printable(each));
  return names;
}

}  // namespace ridge::passes
