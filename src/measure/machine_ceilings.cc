// SPDX-License-Identifier: Apache-2.0
// Reads ceilings from the user's cache folder, or measures and saves them.
#include "measure/machine_ceilings.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "backends/cpu/calibration/calibration.h"
#include "backends/cuda/calibration/calibration.h"
#include "base/error.h"
#include "base/printable.h"
#include "files/atomic_file.h"
#include "files/cache_folder.h"
#include "files/mapped_file.h"

namespace ridge::measure {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargestFile = 16 << 20;

// Warns of a file that cannot be used; `then` says what follows.
std::optional<cost::Ceilings> cached(const fs::path& path,
                                     const cost::Machine& machine,
                                     const char* then,
                                     const CeilingsNote& note) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path, error))) return std::nullopt;
  try {
    const std::string text = files::read_small_file(path, kLargestFile);
    cost::Ceilings ceilings = cost::ceilings_from_json(text, path.string());
    if (ceilings.machine.hash() == machine.hash()) return ceilings;
    throw file_error("[{}] these are the ceilings of {}", path.string(), ceilings.machine.str());
  } catch (const Error& unusable) {
    note(fmt::format("warning: {}; {}", terminal_safe(unusable.what(), kLongestMessage), then));
  }
  return std::nullopt;
}

// The ceilings of the cache, unless they are provisional and can be measured better now: on a quiet
// machine, or with less than half of the disturbance.
std::optional<cost::Ceilings> usable(const fs::path& path,
                                     const cost::Machine& machine,
                                     bool on_gpu,
                                     const CeilingsNote& note) {
  std::optional<cost::Ceilings> found =
      cached(path, machine, "the ceilings are measured again", note);
  if (!found || !found->disturbed()) return found;
  const double share = on_gpu ? backends::cuda::others_share_now() : others_share_now();
  if (share > std::max(cost::kDisturbingShare, found->others_share / 2)) return found;
  note(
      "Other programs disturbed the last measurement of this machine's ceilings; they are measured "
      "again, now that it is quieter.");
  return std::nullopt;
}

}  // namespace

namespace {

void keep(const fs::path& path, const std::string& text, const CeilingsNote& note) {
  if (path.empty()) return;
  try {
    fs::create_directories(path.parent_path());
    files::write_file(path, text, files::Links::kReplace);
  } catch (const std::exception& error) {
    note(fmt::format("warning: {}; the next run measures the ceilings again",
                     terminal_safe(error.what(), kLongestMessage)));
  }
}

// One file for the device, however many of its cores are used.
fs::path links_path(cost::Machine machine) {
  machine.cores = machine.threads = 0;
  machine.isa.clear();
  return files::cache_file(fmt::format("links-{}.json", machine.hash()));
}

}  // namespace

void keep_ceilings(const cost::Ceilings& ceilings, const CeilingsNote& note) {
  cost::Ceilings own = ceilings;
  own.links.clear();  // they have a file of their own
  keep(ceilings_path(ceilings.machine), cost::to_json(own), note);
}

std::vector<cost::LinkCurves> known_links(const cost::Machine& machine, const CeilingsNote& note) {
  const fs::path path = links_path(machine);
  std::error_code error;
  if (path.empty() || !fs::exists(path, error)) return {};
  try {
    return cost::link_curves_from_json(files::read_small_file(path, kLargestFile), path.string());
  } catch (const Error& unusable) {
    note(fmt::format("warning: {}; `ridge machine --links` measures the links again",
                     terminal_safe(unusable.what(), kLongestMessage)));
    return {};
  }
}

void keep_link(const cost::Machine& machine,
               const cost::LinkCurves& link,
               const CeilingsNote& note) {
  std::vector<cost::LinkCurves> links = known_links(machine, note);
  std::erase_if(links, [&](const auto& each) { return each.ranks == link.ranks; });
  links.push_back(link);
  std::ranges::sort(links, {}, &cost::LinkCurves::ranks);
  keep(links_path(machine), cost::to_json(links), note);
}

fs::path ceilings_path(const cost::Machine& machine) {
  return files::cache_file(fmt::format("machine-{}.json", machine.hash()));
}

cost::Machine this_machine(bool on_gpu, bool tf32) {
  return on_gpu ? backends::cuda::this_machine(tf32) : backends::cpu::this_machine();
}

namespace {

void add_links(const cost::Machine& machine, const CeilingsNote& note, cost::Ceilings& ceilings) {
  for (const cost::LinkCurves& each : known_links(machine, note))
    ceilings.links.push_back(each.rates());
}

}  // namespace

std::optional<cost::Ceilings> known_ceilings(bool on_gpu, bool tf32, const CeilingsNote& note) {
  const cost::Machine machine = this_machine(on_gpu, tf32);
  const fs::path path = ceilings_path(machine);
  if (path.empty()) return std::nullopt;
  std::optional<cost::Ceilings> found =
      cached(path, machine, "run `ridge machine` to measure them again", note);
  if (found) add_links(machine, note, *found);
  return found;
}

cost::Ceilings machine_ceilings(const CeilingsRequest& request,
                                const CalibrationProgress& progress,
                                const CeilingsNote& note) {
  const cost::Machine machine = this_machine(request.on_gpu, request.tf32);
  const fs::path path = ceilings_path(machine);
  std::optional<cost::Ceilings> known;
  if (!request.remeasure && !path.empty()) known = usable(path, machine, request.on_gpu, note);
  const bool is_complete = known && (known->has_inference || !request.has_inference);
  const auto measured = [&] {  // measures only the parts that `known` lacks
    return calibrate(*(request.on_gpu ? backends::cuda::make_calibration(request.tf32)
                                      : backends::cpu::make_calibration(
                                            {request.has_inference, std::move(known)})),
                     progress);
  };
  cost::Ceilings ceilings = is_complete ? *std::move(known) : measured();
  if (!is_complete) {
    for (const std::string& each : cost::implausible_levels(ceilings))
      note("warning: " + each +
           ", which no machine does; `ridge machine --remeasure` measures again");
    keep_ceilings(ceilings, note);
  }
  if (ceilings.disturbed())
    note(
        fmt::format("warning: other programs used {:.0f}% of the {} while Ridge measured this "
                    "machine's ceilings{}; these are provisional, and are measured again once it "
                    "is quiet",
                    100 * ceilings.others_share, request.on_gpu ? "GPU's time" : "cores",
                    request.tf32 ? " with TF32" : ""));
  add_links(machine, note, ceilings);
  return ceilings;
}

}  // namespace ridge::measure
