// SPDX-License-Identifier: Apache-2.0
// rename() replaces an empty folder and fails on any other, so there is no race between the check
// and the rename.
#include "files/atomic_folder.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "base/error.h"
#include "files/atomic_file.h"
#include "files/system_reason.h"

namespace ridge::files {
namespace fs = std::filesystem;

AtomicFolder::AtomicFolder(fs::path path, Existing existing)
    : path_(std::move(path)), existing_(existing) {
  // "a/b/" names the same folder as "a/b".
  if (!path_.has_filename()) path_ = path_.parent_path();
  if (!path_.has_filename()) throw usage_error("[{}] cannot write: no folder name", path_.string());
  std::error_code error;
  fs::file_status status = fs::status(path_, error);
  const bool is_free =
      fs::is_directory(status) && (existing_ == Existing::kReplace || fs::is_empty(path_, error));
  if (fs::exists(status) && !is_free)
    throw usage_error("[{}] expected a new or an empty folder, found {}", path_.string(),
                      fs::is_directory(status) ? "one with files in it" : "something else");
  temporary_ = Unfinished::folder(parent());
  if (inside().empty())
    throw runtime_error("[{}] cannot make a folder in {}: {}", path_.string(), parent().string(),
                        system_reason(errno));
}

fs::path AtomicFolder::parent() const {
  return path_.has_parent_path() ? path_.parent_path() : fs::path(".");
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!inside().empty()) fs::remove_all(inside(), ignored);
}

void AtomicFolder::commit() {
  RIDGE_CHECK(!inside().empty(), "second commit of {}", path_.string());
  // The temporary folder has mode 0700; the result gets the default permissions.
  mode_t mask = ::umask(0);
  ::umask(mask);
  ::chmod(inside().c_str(), 0777 & ~mask);
  sync_folder(inside());
  std::error_code error, ignored;
  Unfinished before;
  if (existing_ == Existing::kReplace && fs::exists(path_, ignored)) {
    before = Unfinished::folder(parent());
    fs::rename(path_, before.path(), error);
  }
  if (!error) fs::rename(inside(), path_, error);
  if (error)
    throw runtime_error("[{}] cannot rename into place: {}", path_.string(), error.message());
  temporary_ = {};
  if (!before.path().empty()) fs::remove_all(before.path(), ignored);
  sync_folder(parent());
}

}  // namespace ridge::files
