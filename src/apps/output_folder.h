// SPDX-License-Identifier: Apache-2.0
// A folder of results; a new one appears as a whole or not at all. Not a subcommand.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace ridge::apps {

class OutputFolder {
 public:
  // Checks what can be checked before the work: the folder's parent exists and takes files, and
  // `path` is no file. A folder that holds anything is a usage Error unless `overwrite`. Leaves
  // nothing behind.
  OutputFolder(std::filesystem::path path, bool overwrite);

  // `stem`, or `stem`-2, `stem`-3 ...: the first that does not exist.
  static std::filesystem::path unused(const std::filesystem::path& stem);

  const std::filesystem::path& path() const { return path_; }
  void add(std::string name, std::string text) {
    files_.emplace_back(std::move(name), std::move(text));
  }
  // A new folder is written under another name, then renamed: on a failure nothing is left. Into
  // one that was there (empty, or with --force) files are renamed one by one once all are written:
  // a failure before the first rename leaves it as it was, a later one leaves some new files. What
  // others put into it since the check is a usage Error, unless `overwrite`.
  void commit();

 private:
  void replace_files() const;

  std::filesystem::path path_;
  bool overwrite_;
  std::vector<std::pair<std::string, std::string>> files_;
};

}  // namespace ridge::apps
