// SPDX-License-Identifier: Apache-2.0
// Defines the last collectives of each rank of a run that hung, their files, and what they say
// together: the first collective in which the ranks differ, or that one of them did not reach.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace ridge::record {

// A collective as one rank ran it. Collectives of a group are numbered by each of its ranks.
struct RingedCollective {
  int64_t number = 0;
  std::string group, graph, op, scope;
  int64_t node = -1;              // in the graph; -1: an exchange of the host's
  int64_t bytes = 0;              // the rank's tensors have
  double begin_s = 0, end_s = 0;  // since the run began on its host; an end of 0: waiting
  bool is_finite = true;          // small tensors had neither nan nor infinity

  bool is_waiting() const { return end_s == 0; }
  std::string str() const;  // "all_reduce of layer.0/mlp (node 210 of step, 1.0 MiB)"
};

struct RankRing {
  std::string job;  // the same for all files of a run
  int64_t rank = 0, ranks = 1;
  std::string host;
  int64_t process = 0;
  std::string state;                      // "runs", "stopped", "gone", "failed" or "done"
  std::string error;                      // one that failed ended by it
  double at_s = 0;                        // when the ring was read, since the run began
  std::map<std::string, int64_t> groups;  // their first rank, by name
  std::vector<RingedCollective> collectives;

  std::string str() const;  // "rank 1 (process 4711 on node7, stopped)"
};

// "rank-1.json" in the folder. Writing replaces; reading throws bad-file Errors, and leaves out the
// files of an earlier run. The rings are in the order of the ranks.
void write_ring(const std::filesystem::path& folder, const RankRing& ring);
std::vector<RankRing> read_rings(const std::filesystem::path& folder);

// One rank at the collective in question.
struct RankAtHang {
  RankRing rank;  // without its collectives
  bool has_arrived = false;
  double waited_s = 0;        // since it arrived; of one that has not, since its last one ended
  RingedCollective own = {};  // its collective of that number, or its last one
};
struct Hang {
  enum class Kind {
    kNone,        // no rank waits
    kMismatch,    // the ranks run different collectives
    kAbsent,      // some have not arrived
    kUnfinished,  // all have arrived
  };
  Kind kind = Kind::kNone;
  RingedCollective collective = {};  // as the first rank has it
  std::vector<RankAtHang> ranks = {};
  std::string not_finite = {};  // which rank first had a value that is not finite, and where

  std::string str() const;  // a sentence
};
std::string_view name(Hang::Kind kind);
Hang find_hang(std::span<const RankRing> rings);
nlohmann::ordered_json hang_json(const Hang& hang);

}  // namespace ridge::record
