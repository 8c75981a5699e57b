// SPDX-License-Identifier: Apache-2.0
// The file is a JSON object with two members, "identity" and "choices".
#include "backends/tuning_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "files/atomic_file.h"
#include "files/json.h"
#include "files/json_field.h"
#include "files/mapped_file.h"

namespace ridge::backends {

namespace {

constexpr size_t kMostBytes = 16 << 20;

struct Tuning {
  std::string identity;
  nlohmann::json choices = nlohmann::json::object();
};

// Empty if there is no file.
Tuning read(const std::string& path) {
  std::error_code error;
  if (path.empty() || !std::filesystem::exists(std::filesystem::symlink_status(path, error)))
    return {};
  const nlohmann::json document = files::parse_json(files::read_small_file(path, kMostBytes), path);
  const files::JsonField file(document, path);
  return {file.at("identity").text(), file.at("choices").object()};
}

// Empty if the entry is no choice with its times.
std::optional<TunedChoice> timed_choice(const nlohmann::json& entry) {
  if (!tuned_times(entry)) return std::nullopt;
  const nlohmann::json& choice = entry["choice"];
  if (choice.is_string()) return choice.get<std::string>();
  if (choice.is_array() && std::ranges::all_of(choice, &nlohmann::json::is_number_unsigned))
    return choice.get<std::vector<uint64_t>>();
  return std::nullopt;
}

// Held by one process at a time, for the folder of a file. Without such a folder, or where its file
// system has no locks, there is none: both calls refuse the descriptor and do nothing.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& file)
      : fd_(::open(file.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    ::flock(fd_, LOCK_EX);
  }
  ~FolderLock() { ::close(fd_); }
  FolderLock(const FolderLock&) = delete;

 private:
  int fd_;
};

}  // namespace

nlohmann::json read_tuning(const std::string& path, const std::string& identity) {
  try {
    Tuning tuning = read(path);
    if (tuning.identity == identity) return std::move(tuning.choices);
  } catch (const Error&) {  // overwritten by the next choices
  }
  return nlohmann::json::object();
}

std::string tuning_fault(const std::string& path) {
  try {
    read(path);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

void write_tuning(const std::string& path,
                  const std::string& identity,
                  const nlohmann::json& choices) {
  if (path.empty()) return;
  try {
    files::write_file(path, nlohmann::json{{"identity", identity}, {"choices", choices}}.dump(1),
                      files::Links::kReplace);
  } catch (const Error&) {  // measured again in the next run
  }
}

nlohmann::json tuned_json(const nlohmann::json& choice, const TunedTimes& times) {
  return {{"choice", choice}, {"ns", times.ns}, {"default_ns", times.default_ns}};
}

std::optional<TunedTimes> tuned_times(const nlohmann::json& entry) {
  if (!entry.is_object() || !entry.contains("choice")) return std::nullopt;
  const auto ns = entry.find("ns"), default_ns = entry.find("default_ns");
  if (ns == entry.end() || default_ns == entry.end() || !ns->is_number() ||
      !default_ns->is_number())
    return std::nullopt;
  const TunedTimes times{ns->get<double>(), default_ns->get<double>()};
  if (!(times.ns > 0) || !(times.default_ns > 0)) return std::nullopt;
  return times;
}

KeptChoices::KeptChoices(std::string path, std::string identity)
    : path_(std::move(path)), identity_(std::move(identity)) {
  const nlohmann::json kept = read_tuning(path_, identity_);
  for (const auto& [key, entry] : kept.items())
    if (std::optional<TunedChoice> choice = timed_choice(entry)) choices_[key] = *choice;
}

const TunedChoice* KeptChoices::find(const std::string& key) const {
  const auto found = choices_.find(key);
  return found == choices_.end() ? nullptr : &found->second;
}

const TunedChoice& KeptChoices::keep(const std::string& key,
                                     TunedChoice choice,
                                     const TunedTimes& times) {
  const bool is_new = !choices_.contains(key);
  TunedChoice& kept = choices_[key] = std::move(choice);
  if (path_.empty() || !(times.ns > 0)) return kept;
  const FolderLock lock(path_);
  nlohmann::json all = read_tuning(path_, identity_);
  const std::optional<TunedChoice> first =
      is_new && all.contains(key) ? timed_choice(all[key]) : std::nullopt;
  if (first) return kept = *first;
  all[key] = std::visit([&](const auto& each) { return tuned_json(each, times); }, kept);
  write_tuning(path_, identity_, all);
  return kept;
}

size_t first_of_fastest(std::span<const double> times_ns, double margin) {
  double shortest = std::numeric_limits<double>::infinity();
  for (double each : times_ns)
    if (each > 0) shortest = std::min(shortest, each);
  for (size_t i = 0; i < times_ns.size(); ++i)
    if (times_ns[i] > 0 && times_ns[i] <= shortest * (1 + margin)) return i;
  return 0;
}

record::TunedChoices list_tuning(const std::string& path) {
  const Tuning tuning = read(path);
  record::TunedChoices list{.file = path, .machine = tuning.identity};
  for (const auto& [key, entry] : tuning.choices.items()) {
    const std::optional<TunedChoice> choice = timed_choice(entry);
    if (!choice) continue;
    const auto* words = std::get_if<std::vector<uint64_t>>(&*choice);
    const std::string text = words == nullptr ? std::get<std::string>(*choice)
                             : words->empty() ? ""
                                              : fmt::format("{:#x}", words->front());
    const TunedTimes times = *tuned_times(entry);
    list.choices.push_back({key, text, times.ns, times.default_ns});
  }
  return list;
}

}  // namespace ridge::backends
