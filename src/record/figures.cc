// SPDX-License-Identifier: Apache-2.0
// Spells keys.
#include "record/figures.h"

#include <algorithm>

namespace ridge::record {

std::string label(std::string_view key) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"flops", "FLOPs"}, {"macs", "MACs"}, {"ttft", "TTFT"}, {"tpot", "TPOT"}, {"mfu", "MFU"}};
  std::string text;
  if (key.ends_with("_ns")) key.remove_suffix(3);
  while (!key.empty()) {
    std::string_view word = key.substr(0, key.find('_'));
    key.remove_prefix(std::min(key.size(), word.size() + 1));
    if (word == "per" && !text.empty()) {
      text += "/" + std::string(key == "byte" ? "B" : key);
      std::replace(text.begin(), text.end(), '_', ' ');
      break;
    }
    for (const auto& [plain, shown] : kWords)
      if (word == plain) word = shown;
    text += (text.empty() ? "" : " ") + std::string(word);
  }
  return text;
}

}  // namespace ridge::record
