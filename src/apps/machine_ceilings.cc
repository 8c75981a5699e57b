// SPDX-License-Identifier: Apache-2.0
// Reads ceilings from the user's cache folder, or measures and saves them. Not a subcommand.
#include "apps/machine_ceilings.h"

#include <fmt/format.h>

#include <optional>

#include "apps/environment.h"
#include "backends/cpu/calibration/calibration.h"
#include "backends/cuda/calibration/calibration.h"
#include "base/error.h"
#include "files/atomic_file.h"
#include "files/mapped_file.h"
#include "measure/calibration.h"
#include "report/terminal.h"

namespace ridge::apps {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kProgressSteps = 1000;

constexpr size_t kLargestFile = 16 << 20;

// Warns of a file that cannot be used; `then` says what follows.
std::optional<cost::Ceilings> cached(const fs::path& path,
                                     const cost::Machine& machine,
                                     const char* then) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path, error))) return std::nullopt;
  try {
    const std::string text = files::read_small_file(path, kLargestFile);
    cost::Ceilings ceilings = cost::ceilings_from_json(text, path.string());
    if (ceilings.machine.hash() == machine.hash()) return ceilings;
    throw file_error("[{}] these are the ceilings of {}", path.string(), ceilings.machine.str());
  } catch (const Error& unusable) {
    fmt::print(stderr, "warning: {}; {}\n", terminal_safe(unusable.what(), kLongestMessage), then);
  }
  return std::nullopt;
}

cost::Ceilings calibrated(bool cuda, bool tf32, const TerminalOptions& terminal) {
  Progress progress("ceilings", kProgressSteps, "steps", terminal);
  int64_t shown = 0;
  auto report = [&](double done, std::string_view step) {
    int64_t now = static_cast<int64_t>(done * kProgressSteps);
    progress.tick(now - shown, step);
    shown = now;
  };
  auto calibration =
      cuda ? backends::cuda::make_calibration(tf32) : backends::cpu::make_calibration();
  return measure::calibrate(*calibration, report);
}

cost::Machine this_machine(bool cuda, bool tf32) {
  return cuda ? backends::cuda::this_machine(tf32) : backends::cpu::this_machine();
}

cost::Ceilings cached_or_measured(const MachineOptions& options,
                                  bool tf32,
                                  const TerminalOptions& terminal,
                                  bool remeasure) {
  bool cuda = chosen_device(options) == "cuda";
  cost::Machine machine = this_machine(cuda, tf32);
  fs::path path = ceilings_path(machine);
  if (!remeasure && !path.empty())
    if (auto found = cached(path, machine, "the ceilings are measured again")) return *found;
  cost::Ceilings ceilings = calibrated(cuda, tf32, terminal);
  if (path.empty()) return ceilings;
  try {
    fs::create_directories(path.parent_path());
    files::write_file(path, cost::to_json(ceilings), files::Links::kReplace);
  } catch (const std::exception& error) {
    fmt::print(stderr, "warning: {}; the next run measures the ceilings again\n",
               terminal_safe(error.what(), kLongestMessage));
  }
  return ceilings;
}

}  // namespace

fs::path ceilings_path(const cost::Machine& machine) {
  fs::path folder = cache_folder();
  return folder.empty() ? folder : folder / fmt::format("machine-{}.json", machine.hash());
}

std::optional<cost::Ceilings> known_ceilings(const MachineOptions& options, bool tf32) {
  const cost::Machine machine = this_machine(chosen_device(options) == "cuda", tf32);
  const fs::path path = ceilings_path(machine);
  if (path.empty()) return std::nullopt;
  return cached(path, machine, "run `ridge machine` to measure them again");
}

cost::Ceilings machine_ceilings(const MachineOptions& options,
                                bool tf32,
                                const TerminalOptions& terminal,
                                bool remeasure) {
  cost::Ceilings ceilings = cached_or_measured(options, tf32, terminal, remeasure);
  if (ceilings.disturbed())
    fmt::print(
        stderr, "{}",
        wrap_lines(fmt::format("warning: other programs used {:.0f}% of the cores while Ridge "
                               "measured this machine's ceilings, so these are too low; run `ridge "
                               "machine --remeasure` on an idle machine",
                               100 * ceilings.others_share),
                   terminal.columns));
  return ceilings;
}

}  // namespace ridge::apps
