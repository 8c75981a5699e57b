// SPDX-License-Identifier: Apache-2.0
// Cuts a stream of text at the first stop string. It holds back text that may begin a stop string.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ridge::serve {

class StopText {
 public:
  // Throws a usage Error for a stop string that is empty or too long.
  explicit StopText(std::vector<std::string> stops);

  // Returns the text that can be shown now. After a stop string was found, it returns nothing more.
  std::string push(std::string_view text);
  // Returns the text that was held back. Call it at the end of the stream.
  std::string finish();
  bool is_stopped() const { return is_stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool is_stopped_ = false;
};

}  // namespace ridge::serve
