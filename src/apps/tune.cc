// SPDX-License-Identifier: Apache-2.0
// ridge tune: shows and removes the choices that were made by timing.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>

#include "apps/subcommand.h"
#include "apps/tuning_files.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/units.h"
#include "report/json_text.h"

namespace ridge::apps {
namespace {

struct TuneOptions {
  bool json = false;
};

struct Tuned {
  const TuningFile* file;
  std::string path;
  backends::TuningList list;
};

std::vector<Tuned> read_all() {
  std::vector<Tuned> all;
  for (const TuningFile& file : tuning_files()) {
    const std::string path = tuning_path(file.name);
    try {
      all.push_back({&file, path, backends::list_tuning(path)});
    } catch (const Error& error) {
      fmt::print(stderr, "warning: {}; the next run replaces it\n",
                 terminal_safe(error.what(), kLongestMessage));
    }
  }
  std::erase_if(all, [](const Tuned& each) { return each.list.entries.empty(); });
  return all;
}

// The key of a GEMM without the empty lists of batches.
std::string problem(std::string key) {
  for (size_t at; (at = key.find(":[]")) != key.npos;) key.erase(at, 3);
  std::replace(key.begin(), key.end(), ':', ' ');
  return key;
}

void print_json(const std::vector<Tuned>& all) {
  report::Json json = report::Json::array();
  for (const Tuned& each : all) {
    report::Json choices = report::Json::array();
    for (const backends::TuningEntry& entry : each.list.entries)
      choices.push_back({{"problem", entry.key},
                         {"choice", entry.choice},
                         {"ns", entry.times.ns},
                         {"default_ns", entry.times.default_ns},
                         {"gain", entry.times.gain()}});
    json.push_back({{"what", each.file->what},
                    {"file", each.path},
                    {"machine", each.list.identity},
                    {"choices", std::move(choices)}});
  }
  fmt::print("{}", report::json_text(json));
}

void list(const TuneOptions& o, const TerminalOptions& terminal) {
  const std::vector<Tuned> all = read_all();
  if (o.json) return print_json(all);
  if (all.empty()) fmt::print("Nothing was tuned on this machine yet.\n");
  for (const Tuned& each : all) {
    fmt::print(
        "{}{}\n", &each == &all.front() ? "" : "\n",
        terminal_safe(fmt::format("{}: {}", each.file->what, each.list.identity), kLongestMessage));
    Table table(
        {{"problem", Align::kLeft}, {"choice", Align::kLeft}, {"time"}, {"default"}, {"gain"}});
    for (const backends::TuningEntry& entry : each.list.entries)
      table.add({terminal_safe(problem(entry.key), kLongestMessage),
                 terminal_safe(entry.choice, kLongestMessage), format_ns(entry.times.ns),
                 format_ns(entry.times.default_ns), fmt::format("{:.2f}x", entry.times.gain())});
    fmt::print("{}", table.text(terminal));
  }
}

void clear() {
  int removed = 0;
  for (const TuningFile& file : tuning_files()) {
    const std::string path = tuning_path(file.name);
    std::error_code error;
    // A folder in its place is not ours.
    if (path.empty() || std::filesystem::is_directory(std::filesystem::symlink_status(path, error)))
      continue;
    removed += std::filesystem::remove(path, error) ? 1 : 0;
    if (error) throw runtime_error("[tune] cannot remove {}: {}", printable(path), error.message());
  }
  fmt::print("Removed {} file{} of choices.\n", removed, removed == 1 ? "" : "s");
}

}  // namespace

void register_tune(Command program, const AppContext& context) {
  auto o = std::make_shared<TuneOptions>();
  Command app = program.add_subcommand("tune", "Show or remove what was chosen by timing");
  app.require_subcommand();
  Command shown = app.add_subcommand("list", "Each choice with its gain over the default");
  shown.add_json_flag(o->json);
  shown.footer(
      "m, n and k are the extents of C[m,n] = A[m,k] B[k,n]; a, b and c the steps along their axes.\n"
      "Of forms within 3% of the fastest (GPU: 4%), the default is kept, then the one listed first.\n"
      "Examples:\n"
      "  ridge tune list\n"
      "  ridge tune list --json");
  shown.callback([o, &context] { list(*o, context.terminal); });
  Command removed = app.add_subcommand("clear", "Remove all choices; runs measure again");
  removed.footer("Examples:\n  ridge tune clear");
  removed.callback([] { clear(); });
  app.footer("Examples:\n  ridge tune list");
}

}  // namespace ridge::apps
