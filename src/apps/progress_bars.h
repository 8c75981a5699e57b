// SPDX-License-Identifier: Apache-2.0
// Progress bars of work in several parts, one after the other. Not a subcommand.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "report/terminal.h"

namespace ridge::apps {

class ProgressBars {
 public:
  explicit ProgressBars(const report::TerminalOptions& terminal) : terminal_(terminal) {}

  // One unit of a part is done; another name or total begins the next part.
  void tick(std::string_view name, int64_t total, std::string_view unit, std::string_view note) {
    if (!bar_ || name != name_ || total != total_) {
      clear();
      bar_.emplace(name_ = name, total_ = total, std::string(unit), terminal_);
    }
    bar_->tick(1, note);
  }
  void clear() { bar_.reset(); }  // before other output

 private:
  report::TerminalOptions terminal_;
  std::string name_;
  int64_t total_ = 0;
  std::optional<report::Progress> bar_;
};

}  // namespace ridge::apps
