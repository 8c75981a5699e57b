// SPDX-License-Identifier: Apache-2.0
// Appends by plain write() calls.
#include "files/log_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/error.h"
#include "files/system_reason.h"

namespace ridge::files {
LogFile::LogFile(const std::filesystem::path& path, Start start)
    : path_(path),
      descriptor_(::open(path.c_str(),
                         O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC |
                             (start == Start::kNew ? O_CREAT | O_EXCL : 0),
                         0666)) {
  if (descriptor_ < 0)
    throw runtime_error("[{}] cannot begin a log: {}", path.string(), system_reason(errno));
}

LogFile::~LogFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

LogFile::LogFile(LogFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

void LogFile::append(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor_, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      throw runtime_error("[{}] cannot append: {}", path_.string(),
                          count == 0 ? "nothing was taken" : system_reason(errno));
    text.remove_prefix(static_cast<size_t>(count));
  }
}

}  // namespace ridge::files
