// SPDX-License-Identifier: Apache-2.0
// A folder of results that appears as a whole or not at all. Not a subcommand.
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
  // Writes every file beside its place, then renames all. On any failure nothing is left: not the
  // files, and not the folder where it is new.
  void commit();

 private:
  std::filesystem::path path_;
  std::vector<std::pair<std::string, std::string>> files_;
};

}  // namespace ridge::apps
