// SPDX-License-Identifier: Apache-2.0
// Joins the ranks and divides the processors of a host among them.
#include "runtime/ranks.h"

#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include "backends/collectives/tcp.h"
#include "base/error.h"
#include "base/openmp_threads.h"
#include "base/split.h"
#include "plan/collectives.h"

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

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
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

void Ranks::join_groups(double timeout_s) {
  const bool is_product = layout_.data > 1 && layout_.tensor > 1;
  const char* const only = layout_.tensor > 1 ? "tensor" : "data";
  if (place_.launcher == Launcher::kTorchrun) {
    if (is_product)
      throw usage_error(
          "[ranks] expected data or tensor parallel ranks from torchrun, got both; mpirun and srun "
          "start both");
    groups_[only] =
        backends::join_tcp({place_.address, place_.port, place_.rank, place_.ranks, timeout_s});
    all_ = groups_[only].get();
    return;
  }
  mpi_ = backends::join_mpi({{}, timeout_s});
  if (mpi_->rank() != place_.rank || mpi_->size() != place_.ranks)
    throw usage_error("[ranks] {} says rank {} of {}, the MPI library rank {} of {}",
                      name(place_.launcher), place_.rank, place_.ranks, mpi_->rank(), mpi_->size());
  if (is_product) {
    world_ = mpi_->split(0);
    groups_["data"] = mpi_->split(static_cast<int>(tensor_rank()));
    groups_["tensor"] = mpi_->split(static_cast<int>(data_rank()));
  } else {
    groups_[only] = mpi_->split(0);
  }
  all_ = is_product ? world_.get() : groups_[only].get();
}

Ranks::Ranks(const RankPlace& place, const RankLayout& layout, double timeout_s, bool on_gpu)
    : place_(place), layout_(layout) {
  join_groups(timeout_s);
  if (on_gpu) return;
  std::vector<HostRank> ranks;
  for (const std::string& text : all().gather(to_text({host_name(), allowed_processors()})))
    ranks.push_back(from_text(text));
  const std::vector<int> own = own_processors(ranks, static_cast<size_t>(place.rank));
  if (!own.empty()) stay_on(own);
  processors_ = std::max<int>(1, static_cast<int>(own.size()));
}

void expect_same_collectives(const Ranks& ranks, std::span<const cost::ProgramGraph> program) {
  std::vector<plan::Collective> collectives;
  for (const cost::ProgramGraph& each : program)
    plan::append_collectives(fmt::format("{} x{}", each.name, each.repeat), each.graph(),
                             collectives);
  const std::vector<std::string> all = ranks.all().gather(plan::collectives_text(collectives));
  if (const std::string mismatch = plan::first_mismatch(all); !mismatch.empty())
    throw usage_error("[ranks] expected every rank to run the same collectives; {}", mismatch);
}

}  // namespace ridge::runtime
