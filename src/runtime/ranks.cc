// SPDX-License-Identifier: Apache-2.0
// Joins the ranks and divides the processors of a host among them.
#include "runtime/ranks.h"

#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <exception>

#include "backends/collectives/mpi.h"
#include "backends/collectives/tcp.h"
#include "base/error.h"
#include "base/host_name.h"
#include "base/openmp_threads.h"
#include "base/split.h"
#include "passes/tensor_shards.h"
#include "plan/collectives.h"
#include "runtime/rank_clock.h"

namespace ridge::runtime {
namespace {

void stay_on(const std::vector<int>& processors) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  for (const int each : processors) CPU_SET(each, &allowed);
  ::sched_setaffinity(0, sizeof allowed, &allowed);
}

// "host 0,1,2,3" as ranks tell each other.
std::string to_text(const HostRank& rank) {
  return fmt::format("{} {}", rank.host, fmt::join(rank.processors, ","));
}
HostRank from_text(const std::string& text) {
  HostRank rank;
  const size_t space = text.find(' ');
  rank.host = text.substr(0, space);
  for (const std::string& each : split(text.substr(space + 1)))
    rank.processors.push_back(std::stoi(each));
  return rank;
}

// Ranks with other inputs, as by another --seq-len, may have the same collectives.
std::string inputs_text(const cost::ProgramGraph& program) {
  std::vector<std::string> inputs;
  for (const Value& each : program.graph().values)
    if (each.storage == Storage::kInput && each.type.shape.rank() > 0)
      inputs.push_back(fmt::format("{} {}", each.name, each.type.str()));
  return fmt::format("{}({}) ", program.name, fmt::join(inputs, ", "));
}

// The ranks of a stage have the same ones.
void expect_same_inputs(const std::vector<std::string>& all, const RankLayout& layout) {
  for (int64_t rank = 0; rank < std::ssize(all); ++rank) {
    const int64_t first = layout.stage(rank) * layout.of_stage();
    const std::string &want = all[static_cast<size_t>(first)],
                      &own = all[static_cast<size_t>(rank)];
    if (own != want)
      throw usage_error(
          "[ranks] expected every rank to run the same graphs; rank {} has {}, rank {} has {}",
          first, want, rank, own);
  }
}

}  // namespace

std::vector<int> own_processors(std::span<const HostRank> ranks, size_t rank) {
  const HostRank& own = ranks[rank];
  size_t before = 0, sharing = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].host != own.host || ranks[i].processors != own.processors) continue;
    before += i < rank ? 1 : 0;
    ++sharing;
  }
  const size_t all = own.processors.size();
  if (all == 0) return {};
  if (all < sharing) return {own.processors[before % all]};
  const auto at = [&](size_t part) {
    return own.processors.begin() + static_cast<std::ptrdiff_t>(part * all / sharing);
  };
  return {at(before), at(before + 1)};
}

// The watch, which begins when all have joined, ends the run before an exchange ends by itself.
constexpr double kLaterS = 30;
constexpr const char* kWorld = "world";  // the group of all ranks of a product of layouts

void Ranks::join_groups(double join_s) {
  const double timeout_s = join_s + kLaterS;
  const int64_t ranks = layout_.ranks();
  const bool is_product = ranks != std::max({layout_.data, layout_.tensor, layout_.pipeline});
  const char* const only = layout_.tensor > 1     ? "tensor"
                           : layout_.pipeline > 1 ? plan::kPipelineGroup
                                                  : "data";
  world_ = place_.launcher == Launcher::kTorchrun
               ? backends::join_tcp_world(
                     {place_.address, place_.port, place_.rank, place_.ranks, timeout_s, join_s})
               : backends::join_mpi({{}, timeout_s});
  if (world_->rank() != place_.rank || world_->size() != place_.ranks)
    throw usage_error("[ranks] {} says rank {} of {}, the MPI library rank {} of {}",
                      name(place_.launcher), place_.rank, place_.ranks, world_->rank(),
                      world_->size());
  if (is_product) {
    product_ = world_->split(0);
    const auto join = [&](const char* group, int64_t size) {
      const std::vector<int64_t> members = layout_.members(group, size, place_.rank);
      if (size > 1) groups_[group] = world_->split(static_cast<int>(members[0]));
    };
    join("data", layout_.data), join("tensor", layout_.tensor);
    join(plan::kPipelineGroup, layout_.pipeline);
  } else {
    groups_[only] = world_->split(0);
  }
  if (layout_.pipeline > 1) join_stages();
  all_ = is_product ? product_.get() : groups_[only].get();
}

// All ranks split the world for each pair of stages; those outside the pair are alone.
void Ranks::join_stages() {
  const int64_t stages = layout_.pipeline;
  for (int64_t from = 0; from < (stages == 2 ? 1 : stages); ++from) {
    const std::string name = plan::stage_pair(from, (from + 1) % stages, stages);
    const bool is_inside = stage() == from || stage() == (from + 1) % stages;
    const int64_t first = layout_.members(name, 2, place_.rank)[0];
    auto group = world_->split(static_cast<int>(is_inside ? first : place_.ranks + place_.rank));
    if (is_inside) groups_[name] = std::move(group);
  }
}

Ranks::Ranks(const RankPlace& place,
             const RankLayout& layout,
             const WatchOptions& watch,
             bool on_gpu)
    : place_(place), layout_(layout), watch_(std::make_unique<RankWatch>(place, watch)) {
  join_groups(std::max(watch.first_step_s, watch.timeout_s));
  watch_->use(std::make_unique<RankBoard>(all()));
  for (const auto& [name, group] : groups_) {
    watch_->board().add_group(name, *group);
    group->tell(watch_.get(), name);
  }
  if (product_ != nullptr) {
    watch_->board().add_group(kWorld, *product_);
    product_->tell(watch_.get(), kWorld);
  }
  if (on_gpu) return;
  std::vector<HostRank> ranks;
  const std::vector<int> allowed = allowed_processors();
  for (const std::string& text : all().gather(to_text({host_name(), allowed})))
    ranks.push_back(from_text(text));
  const std::vector<int> own = own_processors(ranks, static_cast<size_t>(place.rank));
  if (!own.empty()) {
    processors_before_ = allowed;
    stay_on(own);
  }
  processors_ = std::max<int>(1, static_cast<int>(own.size()));
}

void Ranks::share_kv_heads(int64_t size) {
  if (size <= 1 || size == layout_.tensor) return;
  const std::string name = passes::kKvHeadsGroup;
  auto& group = groups_[name] = world_->split(static_cast<int>(place_.rank / size));
  watch_->board().add_group(name, *group);
  group->tell(watch_.get(), name);
}

// After an Error the others see that this process left without it. A program that goes on without
// ranks has its processors again.
Ranks::~Ranks() {
  if (std::uncaught_exceptions() == 0) watch_->board().leave();
  if (!processors_before_.empty()) stay_on(processors_before_);
}

void tell(Ranks& ranks, backends::MachineOptions& machine) {
  if (!backends::is_gpu(machine) && machine.threads == 0) machine.threads = ranks.processors();
  machine.groups = &ranks.groups();
  machine.listener = &ranks.watch();
}

std::shared_ptr<Ranks> join_ranks(const RankPlace& place,
                                  const RankLayout& layout,
                                  const WatchOptions& watch,
                                  backends::MachineOptions& machine) {
  auto joined = std::make_shared<Ranks>(place, layout, watch, backends::is_gpu(machine));
  tell(*joined, machine);
  return joined;
}

// A step is over when the next but one begins.
bool Ranks::any(bool here) const {
  if (++asked_ > 2) watch_->set_first_step_done();
  return all().any(here);
}

void expect_same_collectives(const Ranks& ranks, std::span<const cost::ProgramGraph> program) {
  std::vector<plan::Collective> collectives;
  std::string inputs;
  for (const cost::ProgramGraph& each : program) {
    inputs += inputs_text(each);
    plan::append_collectives(fmt::format("{} x{}", each.name, each.repeat), each.graph(),
                             collectives);
  }
  expect_same_inputs(ranks.all().gather(inputs), ranks.layout());
  const std::vector<std::string> all = ranks.all().gather(plan::collectives_text(collectives));
  if (const std::string mismatch = plan::first_mismatch(all, ranks.layout()); !mismatch.empty())
    throw usage_error("[ranks] expected every rank to run the same collectives; {}", mismatch);
}

}  // namespace ridge::runtime
