// SPDX-License-Identifier: Apache-2.0
// Stores choices that a backend measured in a file, with the identity of the machine they were
// measured on. Best effort: a file that cannot be read or written costs a measurement in each run,
// but does not fail the run. The tuner defines what a choice means.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "record/tuned_choices.h"

namespace ridge::backends {

// Returns the choices as an object from keys to choices. Empty if `path` is empty or names no file,
// if the file was written for another identity, or if it does not parse.
nlohmann::json read_tuning(const std::string& path, const std::string& identity);
// Why the file at `path` is not one of choices, as one line; empty if it is or does not exist. Such
// a file is replaced.
std::string tuning_fault(const std::string& path);
// Replaces the whole file; does nothing if `path` is empty.
void write_tuning(const std::string& path,
                  const std::string& identity,
                  const nlohmann::json& choices);

// A choice as a tuner keeps it, with its time and that of the choice made without measuring.
struct TunedTimes {
  double ns = 0;
  double default_ns = 0;
};
// {"choice": ..., "ns": ..., "default_ns": ...}
nlohmann::json tuned_json(const nlohmann::json& choice, const TunedTimes& times);
// Empty if `entry` has no such times. The choice is entry["choice"].
std::optional<TunedTimes> tuned_times(const nlohmann::json& entry);

// A form by its name, or an algorithm as numbers.
using TunedChoice = std::variant<std::string, std::vector<uint64_t>>;

// The choices of a tuner. Those in the file are read when it is made; a file of another identity,
// or one that does not parse, is ignored and overwritten.
class KeptChoices {
 public:
  KeptChoices(std::string path, std::string identity);
  KeptChoices(const KeptChoices&) = delete;

  const TunedChoice* find(const std::string& key) const;  // null if there is none
  // Adds the choice to the file, unless it has no times. Returns the choice that counts: that of
  // the process that wrote the key first, since this object read the file, so that ranks that
  // measure at the same time compute alike.
  const TunedChoice& keep(const std::string& key, TunedChoice choice, const TunedTimes& times);

 private:
  std::string path_, identity_;
  std::map<std::string, TunedChoice> choices_;
};

// The index of the choice: the first candidate whose time is within `margin` of the shortest, so
// that ties go to what is listed first; the default is the first. At least one candidate has a
// time; those without (0) were not measured.
size_t first_of_fastest(std::span<const double> times_ns, double margin);

// Empty if there is no file. Throws a bad-file Error if it is none of choices.
record::TunedChoices list_tuning(const std::string& path);

}  // namespace ridge::backends
