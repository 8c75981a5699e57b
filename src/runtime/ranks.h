// SPDX-License-Identifier: Apache-2.0
// The processes of a run as one of them sees them: its place, the groups that it exchanges data in,
// and the processors that it uses.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/collectives/communicator.h"
#include "backends/machine.h"
#include "cost/costed_graph.h"
#include "plan/rank_layout.h"
#include "runtime/rank_place.h"
#include "runtime/rank_watch.h"

namespace ridge::runtime {

// The processors that a rank may use.
struct HostRank {
  std::string host;
  std::vector<int> processors;
};

// The processors of one of the ranks: ranks of a host that may use the same ones divide them, so
// that no two ranks have one in common if there are enough.
std::vector<int> own_processors(std::span<const HostRank> ranks, size_t rank);

using plan::RankLayout;

class Ranks {
 public:
  // Joins the other ranks: by MPI those that mpirun or srun started, by TCP those of torchrun. On
  // CPUs, keeps this process on its own processors; call before OpenMP's threads start. Throws
  // run-time Errors if a library is missing or a rank does not come, and usage Errors.
  Ranks(const RankPlace& place, const RankLayout& layout, const WatchOptions& watch, bool on_gpu);
  ~Ranks();
  Ranks(const Ranks&) = delete;

  const RankPlace& place() const { return place_; }
  bool is_first() const { return place_.rank == 0; }
  // "data": ranks with the same parameters and other sequences. "tensor": ranks that share a model
  // or a stage of it. "pipeline": its stages, and "pipeline.N": stage N and the next one. A group
  // of one rank is missing.
  const backends::Groups& groups() const { return groups_; }
  backends::Communicator& all() const { return *all_; }
  int64_t data_rank() const { return layout_.data_rank(place_.rank); }
  int64_t tensor_rank() const { return layout_.tensor_rank(place_.rank); }
  int64_t stage() const { return layout_.stage(place_.rank); }
  const RankLayout& layout() const { return layout_; }
  // Joins neighbours of the group "tensor", `size` of them, in a group of their own unless they are
  // all. Every rank calls it, before a backend is made.
  void share_kv_heads(int64_t size);
  int processors() const { return processors_; }  // the number that this process may use
  RankWatch& watch() { return *watch_; }
  // The first rank of each of this one's groups.
  std::map<std::string, int64_t> groups_by_first_rank() const { return watch_->board().groups(); }
  // Whether it is true on any rank. Called before each step.
  bool any(bool here) const;

 private:
  void join_groups(double join_s);
  void join_stages();

  RankPlace place_;
  RankLayout layout_;
  std::vector<int> processors_before_;  // empty: they have not changed
  std::unique_ptr<RankWatch> watch_;    // it ends last
  std::unique_ptr<backends::RankWorld> world_;
  backends::Groups groups_;
  std::unique_ptr<backends::Communicator> product_;  // it has all ranks; null: a group does
  backends::Communicator* all_ = nullptr;
  int processors_ = 1;
  mutable int64_t asked_ = 0;  // steps that have begun
};

// Tells the options of a rank's machine the groups, who hears their collectives, and on CPUs the
// threads, unless they are given.
void tell(Ranks& ranks, backends::MachineOptions& machine);
// Joins the ranks, and tells the machine's options. Throws as Ranks does.
std::shared_ptr<Ranks> join_ranks(const RankPlace& place,
                                  const RankLayout& layout,
                                  const WatchOptions& watch,
                                  backends::MachineOptions& machine);

// Tells the ranks each other's collectives. Throws a usage Error that names the first one in which
// a rank differs; every rank throws the same.
void expect_same_collectives(const Ranks& ranks, std::span<const cost::ProgramGraph> program);

}  // namespace ridge::runtime
