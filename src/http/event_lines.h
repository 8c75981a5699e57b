// SPDX-License-Identifier: Apache-2.0
// The data of server-sent events from bytes that come in any pieces.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace ridge::http {

class EventLines {
 public:
  // Calls `take` with the data of each line "data: ..." that is complete now. Other fields and
  // comments are skipped.
  void push(std::string_view bytes, const std::function<void(std::string_view)>& take) {
    waiting_ += bytes;
    size_t begin = 0;
    for (size_t end; (end = waiting_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      std::string_view line = std::string_view(waiting_).substr(begin, end - begin);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.starts_with("data:")) continue;
      line.remove_prefix(5);
      if (line.starts_with(' ')) line.remove_prefix(1);
      take(line);
    }
    waiting_.erase(0, begin);
  }

 private:
  std::string waiting_;
};

}  // namespace ridge::http
