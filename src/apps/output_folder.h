// SPDX-License-Identifier: Apache-2.0
// A folder of results and the options that name it. A new folder appears complete or not at all.
// Not a subcommand.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/command.h"
#include "report/output_files.h"
#include "report/terminal.h"

namespace ridge::apps {

// --out, --force
struct OutputOptions {
  std::optional<std::string> folder;
  bool overwrite = false;
};
// `help` describes --out. Returns --out.
Option add_output_options(Command app, OutputOptions& options, const std::string& help);

// --gzip
void add_gzip_option(Command app, report::OutputFormat& format);

// --gzip, --format
struct FormatOptions {
  report::OutputFormat files;
  std::string name = "ridge";
  // Throws a usage Error for an unknown name.
  report::OutputFormat chosen() const;
};
void add_format_options(Command app, FormatOptions& options);

// --force does nothing without --out.
Mode without_folder(const OutputOptions& options);

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
  void commit(std::vector<report::OutputFile> files);  // adds these first

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

}  // namespace ridge::apps
