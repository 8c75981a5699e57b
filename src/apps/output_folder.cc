// SPDX-License-Identifier: Apache-2.0
// Checks, writing beside, renaming. Not a subcommand.
#include "apps/output_folder.h"

#include <system_error>

#include "base/error.h"
#include "files/atomic_file.h"
#include "files/atomic_folder.h"

namespace ridge::apps {
namespace fs = std::filesystem;

OutputFolder::OutputFolder(fs::path path, bool overwrite)
    : path_(std::move(path)), overwrite_(overwrite) {
  if (path_.empty()) throw usage_error("[out] expected a folder's name, got an empty one");
  // "a/b/" names the same folder as "a/b".
  if (!path_.has_filename()) path_ = path_.parent_path();
  std::error_code error;
  fs::file_status status = fs::status(path_, error);
  if (fs::exists(status) && !fs::is_directory(status))
    throw usage_error("[out] {} exists and is no folder", path_.string());
  if (fs::is_directory(status)) {
    bool is_empty = fs::is_empty(path_, error);
    if (error)
      throw runtime_error("[out] cannot read folder {}: {}", path_.string(), error.message());
    if (!is_empty && !overwrite)
      throw usage_error("[out] {} exists and is not empty; --force overwrites its files",
                        path_.string());
  }
  fs::path home = fs::is_directory(status)  ? path_
                  : path_.has_parent_path() ? path_.parent_path()
                                            : fs::path(".");
  // Made and taken back: the only test of permission that holds for every user and file system.
  files::AtomicFile probe(home / "ridge-probe");
}

fs::path OutputFolder::unused(const fs::path& stem) {
  fs::path path = stem;
  std::error_code error;
  for (int i = 2; fs::exists(fs::symlink_status(path, error)); ++i)
    path = fmt::format("{}-{}", stem.string(), i);
  return path;
}

// All are on the disk before the first is renamed.
void OutputFolder::replace_files() const {
  std::vector<files::AtomicFile> pending;
  pending.reserve(files_.size());
  for (const auto& [name, text] : files_) {
    pending.emplace_back(path_ / name);
    pending.back().write(text);
    pending.back().finish();
  }
  for (files::AtomicFile& file : pending) file.commit();
}

void OutputFolder::commit() {
  if (fs::is_directory(path_) && (overwrite_ || fs::is_empty(path_))) return replace_files();
  files::AtomicFolder folder(path_);
  for (const auto& [name, text] : files_) files::write_file(folder.inside() / name, text);
  folder.commit();
}

}  // namespace ridge::apps
