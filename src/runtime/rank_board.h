// SPDX-License-Identifier: Apache-2.0
// A board of the ranks of this host, in memory that they share: the process of each and its last
// collectives. The others read it also while the rank is stopped, and after it was killed. The
// memory has no name, so nothing is left over.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "backends/collectives/communicator.h"
#include "plan/collectives.h"
#include "record/rank_ring.h"

namespace ridge::runtime {

class RankBoard {
 public:
  static constexpr int64_t kKept = 2000;  // collectives of a rank

  // All ranks call it. Throws a run-time Error without memory.
  explicit RankBoard(backends::Communicator& all);
  ~RankBoard();
  RankBoard(const RankBoard&) = delete;
  // Before the first collective of a group. All of its ranks call it.
  void add_group(const std::string& name, backends::Communicator& group);
  // The groups of the own rank by name, with the first rank of each.
  std::map<std::string, int64_t> groups() const;

  // Only the own rank writes. Returns the number of the entry among all of the rank.
  int64_t begin(const plan::Collective& collective, bool is_finite, bool is_on_device);
  void end(int64_t entry);
  // So many of the entries on the device have ended.
  void end_on_device(int64_t finished);
  // The first entry that has not ended; -1: none.
  int64_t first_open();
  void fail(const std::string& error);
  void leave();  // the rank has ended as it should

  int rank() const { return rank_; }
  int ranks() const { return static_cast<int>(hosts_.size()); }
  bool has_failed_alike(int rank, const std::string& error) const;
  bool is_here(int rank) const { return host(rank) == host(rank_); }
  // "runs", "stopped", "gone", "failed" or "done"
  std::string state(int rank) const;
  // The rings of the ranks of this host.
  std::vector<record::RankRing> rings() const;

  // One rank of the host says each of these for all: true for the first that asks.
  enum class Word { kError, kHang };
  bool claim(Word word);
  void set_told(Word word);  // it has said it
  bool is_told(Word word) const;

 private:
  const std::string& host(int rank) const { return hosts_[static_cast<size_t>(rank)]; }
  struct Entry;
  struct Rank;
  struct Shared;
  Rank& of(int rank) const;
  Entry& entry(int rank, int64_t number) const;
  record::RankRing ring(int rank) const;

  int rank_ = 0;
  std::vector<std::string> hosts_;
  std::string job_;
  Shared* shared_ = nullptr;
  size_t bytes_ = 0;
  int64_t open_ = 0;       // entries before it have ended
  int64_t on_device_ = 0;  // entries on the device so far
};

}  // namespace ridge::runtime
