// SPDX-License-Identifier: Apache-2.0
// Numbers texts.
#include "record/import/foreign_trace.h"

namespace ridge::record {

uint32_t NameTable::number(std::string_view text) {
  if (const auto found = numbers_.find(text); found != numbers_.end()) return found->second;
  const auto number = static_cast<uint32_t>(texts_.size());
  texts_.emplace_back(text);
  numbers_.emplace(texts_.back(), number);
  return number;
}

}  // namespace ridge::record
