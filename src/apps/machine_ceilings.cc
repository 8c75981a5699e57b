// SPDX-License-Identifier: Apache-2.0
// Reads ceilings from the user's cache folder, or measures and saves them. Not a subcommand.
#include "apps/machine_ceilings.h"

#include <fmt/format.h>

#include <algorithm>
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

// Measures what `known` lacks, or everything.
cost::Ceilings calibrated(bool cuda,
                          const CeilingsRequest& request,
                          std::optional<cost::Ceilings> known,
                          const TerminalOptions& terminal) {
  Progress progress("ceilings", kProgressSteps, "steps", terminal);
  int64_t shown = 0;
  auto report = [&](double done, std::string_view step) {
    int64_t now = static_cast<int64_t>(done * kProgressSteps);
    progress.tick(now - shown, step);
    shown = now;
  };
  auto calibration =
      cuda ? backends::cuda::make_calibration(request.tf32)
           : backends::cpu::make_calibration({request.has_inference, std::move(known)});
  return measure::calibrate(*calibration, report);
}

cost::Machine this_machine(bool cuda, bool tf32) {
  return cuda ? backends::cuda::this_machine(tf32) : backends::cpu::this_machine();
}

void warn(const std::string& text, const TerminalOptions& terminal) {
  fmt::print(stderr, "{}", wrap_lines("warning: " + text, terminal.columns));
}

// The ceilings of the cache, unless they are provisional and can be measured better now: on a quiet
// machine, or with less than half of the disturbance.
std::optional<cost::Ceilings> usable(const fs::path& path,
                                     const cost::Machine& machine,
                                     const TerminalOptions& terminal) {
  std::optional<cost::Ceilings> found = cached(path, machine, "the ceilings are measured again");
  if (!found || !found->disturbed()) return found;
  if (measure::others_share_now() > std::max(cost::kDisturbingShare, found->others_share / 2))
    return found;
  fmt::print(stderr, "{}",
             wrap_lines("Other programs disturbed the last measurement of this machine's ceilings; "
                        "they are measured again, now that it is quieter.",
                        terminal.columns));
  return std::nullopt;
}

}  // namespace

void keep_ceilings(const cost::Ceilings& ceilings, const TerminalOptions& terminal) {
  const fs::path path = ceilings_path(ceilings.machine);
  if (path.empty()) return;
  try {
    fs::create_directories(path.parent_path());
    files::write_file(path, cost::to_json(ceilings), files::Links::kReplace);
  } catch (const std::exception& error) {
    warn(fmt::format("{}; the next run measures the ceilings again",
                     terminal_safe(error.what(), kLongestMessage)),
         terminal);
  }
}

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
                                const CeilingsRequest& request,
                                const TerminalOptions& terminal) {
  const bool cuda = chosen_device(options) == "cuda";
  const cost::Machine machine = this_machine(cuda, request.tf32);
  const fs::path path = ceilings_path(machine);
  std::optional<cost::Ceilings> known;
  if (!request.remeasure && !path.empty()) known = usable(path, machine, terminal);
  const bool is_complete = known && (known->has_inference || !request.has_inference);
  const cost::Ceilings ceilings =
      is_complete ? *std::move(known) : calibrated(cuda, request, std::move(known), terminal);
  if (!is_complete) {
    for (const std::string& each : cost::implausible_levels(ceilings))
      warn(each + ", which no machine does; `ridge machine --remeasure` measures again", terminal);
    keep_ceilings(ceilings, terminal);
  }
  if (ceilings.disturbed())
    warn(fmt::format("other programs used {:.0f}% of the cores while Ridge measured this machine's "
                     "ceilings; these are provisional, and are measured again once it is quiet",
                     100 * ceilings.others_share),
         terminal);
  return ceilings;
}

}  // namespace ridge::apps
