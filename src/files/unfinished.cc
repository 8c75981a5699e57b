// SPDX-License-Identifier: Apache-2.0
// One list for the whole program.
#include "files/unfinished.h"

#include <mutex>
#include <set>
#include <system_error>
#include <utility>

namespace ridge::files {
namespace {

constexpr int kAttempts = 10;

// Never destroyed: threads may end after main does.
struct List {
  std::mutex mutex;
  std::set<std::filesystem::path> paths;
};
List& list() {
  static List* made = new List;
  return *made;
}

}  // namespace

Unfinished::Unfinished(std::filesystem::path path) : path_(std::move(path)) {
  std::scoped_lock lock(list().mutex);
  list().paths.insert(path_);
}

Unfinished::~Unfinished() {
  if (path_.empty()) return;
  std::scoped_lock lock(list().mutex);
  list().paths.erase(path_);
}

Unfinished::Unfinished(Unfinished&& other) noexcept : path_(std::exchange(other.path_, {})) {}

Unfinished& Unfinished::operator=(Unfinished&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

void remove_unfinished() {
  std::scoped_lock lock(list().mutex);
  std::error_code ignored;
  // Another thread may make a file in a folder that is going; its next one waits for the lock.
  for (const std::filesystem::path& path : list().paths)
    for (int attempt = 0; attempt < kAttempts && std::filesystem::exists(path, ignored); ++attempt)
      std::filesystem::remove_all(path, ignored);
}

}  // namespace ridge::files
