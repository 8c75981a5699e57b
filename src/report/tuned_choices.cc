// SPDX-License-Identifier: Apache-2.0
// One table per file of choices.
#include "report/tuned_choices.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"

namespace ridge::report {
namespace {

// The key of a GEMM without the empty lists of batches.
std::string problem(std::string key) {
  for (size_t at; (at = key.find(":[]")) != key.npos;) key.erase(at, 3);
  std::replace(key.begin(), key.end(), ':', ' ');
  return terminal_safe(key, kLongestMessage);
}

}  // namespace

std::string tuned_text(std::span<const record::TunedChoices> all, const TerminalOptions& terminal) {
  std::string text = all.empty() ? "Nothing was tuned on this machine yet.\n" : "";
  for (const record::TunedChoices& each : all) {
    if (!text.empty()) text += "\n";
    text += terminal_safe(fmt::format("{}: {}", each.what, each.machine), kLongestMessage) + "\n";
    Table table(
        {{"problem", Align::kLeft}, {"choice", Align::kLeft}, {"time"}, {"default"}, {"gain"}});
    for (const record::TunedChoice& choice : each.choices)
      table.add({problem(choice.problem), terminal_safe(choice.choice, kLongestMessage),
                 format_ns(choice.ns), format_ns(choice.default_ns),
                 fmt::format("{:.2f}x", choice.gain())});
    text += table.text(terminal);
  }
  return text;
}

}  // namespace ridge::report
