// SPDX-License-Identifier: Apache-2.0
// Checks a folder, writes its files under temporary names and renames them.
#include "report/output_folder.h"

#include <fmt/format.h>

#include <system_error>

#include "base/error.h"
#include "base/printable.h"
#include "files/atomic_file.h"
#include "files/atomic_folder.h"
#include "report/terminal.h"

namespace ridge::report {
namespace fs = std::filesystem;
namespace {

fs::path unused(const std::string& stem) {
  fs::path path = stem;
  std::error_code error;
  for (int i = 2; fs::exists(fs::symlink_status(path, error)); ++i)
    path = fmt::format("{}-{}", stem, i);
  return path;
}

// The file; its folder is made if the name has one: "flops_analysis/roofline_data.json".
fs::path made_for(fs::path file) {
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (error)
    throw runtime_error("[out] cannot make folder {}: {}", file.parent_path().string(),
                        error.message());
  return file;
}

}  // namespace

OutputFolder::OutputFolder(const OutputOptions& options, const std::string& stem)
    : OutputFolder(options.folder ? fs::path(*options.folder) : unused(stem), options.overwrite) {}

OutputFolder::OutputFolder(fs::path path, bool overwrite)
    : path_(std::move(path)), overwrite_(overwrite) {
  if (path_.empty()) throw usage_error("[out] expected a folder name, got an empty one");
  // "a/b/" names the same folder as "a/b".
  if (!path_.has_filename()) path_ = path_.parent_path();
  std::error_code error;
  fs::file_status status = fs::status(path_, error);
  if (fs::exists(status) && !fs::is_directory(status))
    throw usage_error("[out] {} exists and is not a folder", path_.string());
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
  // Creating a file is the only permission test that works for every user and file system.
  files::AtomicFile probe(home / "ridge-probe", files::Links::kReplace);
}

// All files are on disk before the first is renamed.
void OutputFolder::replace_files() const {
  std::vector<files::AtomicFile> pending;
  pending.reserve(files_.size());
  for (const auto& [name, text] : files_) {
    pending.emplace_back(made_for(path_ / name), files::Links::kReplace);
    pending.back().write(text);
    pending.back().finish();
  }
  for (files::AtomicFile& file : pending) file.commit();
}

void OutputFolder::commit() {
  if (fs::is_directory(path_) && (overwrite_ || fs::is_empty(path_))) return replace_files();
  files::AtomicFolder folder(path_);
  for (const auto& [name, text] : files_) files::write_file(made_for(folder.inside() / name), text);
  folder.commit();
}

void OutputFolder::commit(std::vector<OutputFile> files) {
  for (OutputFile& file : files) add(std::move(file.name), std::move(file.text));
  commit();
}

std::optional<OutputFolder> requested_folder(const OutputOptions& options) {
  if (!options.folder) return {};
  return OutputFolder(*options.folder, options.overwrite);
}

std::string written_text(const OutputFolder& folder, const TerminalOptions& options, bool lists) {
  const std::string text =
      lists
          ? fmt::format(
                "\nWrote report.html (open it in a browser), the tables, report.md and the traces "
                "(open them in ui.perfetto.dev) to {}.",
                terminal_safe(folder.path().string()))
          : fmt::format("Report: {} (--verbose prints all tables)",
                        terminal_safe((folder.path() / "report.html").string()));
  return wrap_lines(text, options.columns);
}

}  // namespace ridge::report
