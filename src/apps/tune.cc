// SPDX-License-Identifier: Apache-2.0
// ridge tune: shows and removes the choices that were made by timing.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "apps/subcommand.h"
#include "backends/machine.h"
#include "backends/tuning_file.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/units.h"
#include "files/cache_folder.h"
#include "report/command_text.h"
#include "report/json_text.h"

namespace ridge::apps {
namespace {

struct TuningFile {
  const char* name;
  const char* what;
};
constexpr TuningFile kFiles[] = {{backends::kCpuTuning, "GEMM, CPU"},
                                 {backends::kGpuTuning, "GEMM, GPU"},
                                 {backends::kAttentionTuning, "attention"}};

void list(bool json, const TerminalOptions& terminal) {
  std::vector<record::TunedChoices> all;
  for (const TuningFile& file : kFiles) {
    try {
      record::TunedChoices found = backends::list_tuning(files::cache_file(file.name).string());
      found.what = file.what;
      if (!found.choices.empty()) all.push_back(std::move(found));
    } catch (const Error& error) {
      fmt::print(stderr, "warning: {}; the next run replaces it\n",
                 terminal_safe(error.what(), kLongestMessage));
    }
  }
  fmt::print("{}",
             json ? report::json_text(report::value_json(all)) : report::tuned_text(all, terminal));
}

void clear() {
  int removed = 0;
  for (const TuningFile& file : kFiles) {
    const std::filesystem::path path = files::cache_file(file.name);
    std::error_code error;
    // A folder in its place is not ours.
    if (path.empty() || std::filesystem::is_directory(std::filesystem::symlink_status(path, error)))
      continue;
    removed += std::filesystem::remove(path, error) ? 1 : 0;
    if (error)
      throw runtime_error("[tune] cannot remove {}: {}", printable(path.string()), error.message());
  }
  fmt::print("Removed {} of choices.\n", counted(removed, "file"));
}

}  // namespace

void register_tune(Command program, const AppContext& context) {
  auto json = std::make_shared<bool>(false);
  Command app = program.add_subcommand("tune", "Show or remove what was chosen by timing");
  app.require_subcommand();
  Command shown = app.add_subcommand("list", "Each choice with its gain over the default");
  shown.add_json_flag(*json);
  shown.footer(
      "m, n and k are the extents of C[m,n] = A[m,k] B[k,n]; a, b and c the steps along their axes.\n"
      "Of forms within 3% of the fastest (GPU: 4%), the default is kept, then the one listed first.\n"
      "Examples:\n"
      "  ridge tune list\n"
      "  ridge tune list --json");
  shown.callback([json, &context] { list(*json, context.terminal); });
  Command removed = app.add_subcommand("clear", "Remove all choices; runs measure again");
  removed.footer("Examples:\n  ridge tune clear");
  removed.callback([] { clear(); });
  app.footer("Examples:\n  ridge tune list");
}

}  // namespace ridge::apps
