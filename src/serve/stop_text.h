// SPDX-License-Identifier: Apache-2.0
// Cuts a stream of text at the first of some strings. What may be the beginning of one waits.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ridge::serve {

class StopText {
 public:
  // Empty strings are usage Errors.
  explicit StopText(std::vector<std::string> stops);

  // The text that can be shown now. After a stop string was found, nothing more comes.
  std::string push(std::string_view text);
  // What was held back, at the end of the stream.
  std::string finish();
  bool is_stopped() const { return is_stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool is_stopped_ = false;
};

}  // namespace ridge::serve
