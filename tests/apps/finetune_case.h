// SPDX-License-Identifier: Apache-2.0
// Fine-tuning by the built program: a file of ids, a run on it, and the losses of its log.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/logged_losses.h"
#include "apps/program_run.h"
#include "test_paths.h"

namespace ridge::apps {

class FinetuneCase : public ProgramTest {
 protected:
  // Windows of T + 1 ids, of which each begins with the last id of the one before: as training cuts
  // the file "ids.bin", which gets all ids.
  std::vector<std::vector<int32_t>> write_windows(const std::vector<int32_t>& ids,
                                                  int64_t sequence,
                                                  int64_t vocabulary) const {
    std::string bytes;
    const int width = vocabulary > 65536 ? 4 : 2;
    for (const int32_t id : ids)
      for (int byte = 0; byte < width; ++byte) bytes += static_cast<char>(id >> 8 * byte & 255);
    files::write_plain(folder_ / "ids.bin", bytes);
    std::vector<std::vector<int32_t>> windows;
    for (auto at = ids.begin(); ids.end() - at > sequence; at += sequence)
      windows.emplace_back(at, at + sequence + 1);
    files::write_plain(folder_ / "windows.json", nlohmann::json(windows).dump());
    return windows;
  }

  // Each step's batch is all windows, so that their order does not matter.
  std::vector<std::string> line(const std::string& model,
                                int64_t windows,
                                int64_t sequence,
                                std::vector<std::string> more) const {
    std::vector<std::string> all{"train", "--model", model, "--data", "ids.bin", "--device", "cpu"};
    more.insert(more.end(), {"--batch-size", std::to_string(windows), "--seq-len",
                             std::to_string(sequence), "--decay", "all"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  std::vector<double> losses(const std::string& log) const { return logged_losses(folder_ / log); }
};

}  // namespace ridge::apps
