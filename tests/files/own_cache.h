// SPDX-License-Identifier: Apache-2.0
// A cache folder of a test's own, so that it neither reads nor changes the user's.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

#include "files/scratch.h"

namespace ridge::files {

class OwnCache {
 public:
  OwnCache() {
    if (const char* value = std::getenv(kName)) before_ = value;
    ::setenv(kName, folder_.path().c_str(), 1);
  }
  ~OwnCache() { before_ ? ::setenv(kName, before_->c_str(), 1) : ::unsetenv(kName); }
  OwnCache(const OwnCache&) = delete;
  OwnCache& operator=(const OwnCache&) = delete;

 private:
  static constexpr const char* kName = "XDG_CACHE_HOME";
  ScratchFolder folder_;
  std::optional<std::string> before_;
};

}  // namespace ridge::files
