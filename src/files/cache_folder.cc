// SPDX-License-Identifier: Apache-2.0
// Finds the folder by the environment.
#include "files/cache_folder.h"

#include <cstdlib>

namespace ridge::files {

std::filesystem::path cache_file(const std::string& name) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache != nullptr && *cache != '\0') return std::filesystem::path(cache) / "ridge" / name;
  if (home == nullptr || *home == '\0') return {};
  return std::filesystem::path(home) / ".cache" / "ridge" / name;
}

}  // namespace ridge::files
