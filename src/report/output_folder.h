// SPDX-License-Identifier: Apache-2.0
// A folder of results. A new folder appears complete or not at all.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/output_files.h"
#include "report/terminal.h"

namespace ridge::report {

struct OutputOptions {
  std::optional<std::string> folder;
  bool overwrite = false;  // files of a folder that exists
};

class OutputFolder {
 public:
  // Checks as much as possible before the work starts: the parent folder must exist and be
  // writable, and `path` must not be a file. A folder that is not empty is a usage Error unless
  // `overwrite` is set. Leaves nothing behind.
  OutputFolder(std::filesystem::path path, bool overwrite);
  // Uses the folder that the options name; otherwise the first of `stem`, `stem`-2, `stem`-3 ...
  // that does not exist.
  OutputFolder(const OutputOptions& options, const std::string& stem);

  const std::filesystem::path& path() const { return path_; }
  void add(std::string name, std::string text) {
    files_.emplace_back(std::move(name), std::move(text));
  }
  // Writes a new folder under a temporary name and then renames it, so that a failure leaves
  // nothing. In an existing folder (empty, or with --force), it writes all files before it renames
  // the first: a failure before that leaves the folder unchanged, a later one leaves some new
  // files. Files that another program has added since the check are a usage Error unless
  // `overwrite` is set.
  void commit();
  void commit(std::vector<OutputFile> files);  // adds these first

 private:
  void replace_files() const;

  std::filesystem::path path_;
  bool overwrite_;
  std::vector<std::pair<std::string, std::string>> files_;
};

// The folder that --out names; empty without --out.
std::optional<OutputFolder> requested_folder(const OutputOptions& options);

// The last line of a lab's output: where its files are and, if `lists` is set, what they are.
std::string written_text(const OutputFolder& folder,
                         const TerminalOptions& options,
                         bool lists = true);

}  // namespace ridge::report
