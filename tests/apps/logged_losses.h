// SPDX-License-Identifier: Apache-2.0
// The losses that `ridge train --log-dir` writes.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "files/scratch.h"

namespace ridge::apps {

// The loss of each training step in a folder's log, with all digits; lines that a stopped program
// left unfinished are passed over.
inline std::vector<double> logged_losses(const std::filesystem::path& folder) {
  std::vector<double> losses;
  std::istringstream lines(files::contents(folder / "metrics.jsonl"));
  for (std::string each; std::getline(lines, each);) {
    const auto step = nlohmann::json::parse(each, nullptr, false);
    if (!step.is_discarded() && step.contains("loss")) losses.push_back(step["loss"]);
  }
  return losses;
}

}  // namespace ridge::apps
