// SPDX-License-Identifier: Apache-2.0
// The links between two ranks, of which the other one is a process of its own.
#include "measure/link_ceilings.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <string>
#include <vector>

#include "backends/machine.h"
#include "files/scratch.h"
#include "runtime/rank_launcher.h"
#include "runtime/ranks.h"

namespace ridge::measure {
namespace {

constexpr int64_t kMostBytes = 40'000;

cost::LinkCurves links_of(int rank, int port, const CalibrationProgress& progress) {
  const runtime::RankPlace place{runtime::Launcher::kTorchrun, rank, 2, rank, 2, "127.0.0.1", port};
  backends::MachineOptions machine{.device = "cpu", .threads = 1};
  const auto ranks = runtime::join_ranks(place, {.data = 2}, {}, machine);
  const auto backend = backends::make_backend(machine, passes::Selection("compiled", ""));
  return measure_links(*backend, *ranks, kMostBytes, progress);
}

TEST(MeasureLinks, HasEachSizeOfEachCollectiveAlikeOnAllRanks) {
  const files::ScratchFolder folder;
  const int port = runtime::free_port();
  const pid_t other = ::fork();
  ASSERT_GE(other, 0);
  if (other == 0) {
    try {
      files::write_plain(folder / "other", cost::to_json({links_of(1, port, {})}));
    } catch (const std::exception&) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  std::vector<double> done;
  std::vector<std::string> steps;
  const cost::LinkCurves own = links_of(0, port, [&](double share, std::string_view step) {
    done.push_back(share);
    steps.emplace_back(step);
  });
  int status = 1;
  ASSERT_EQ(::waitpid(other, &status, 0), other);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(own.ranks, 2);
  ASSERT_EQ(own.curves.size(), 3u);
  const auto there =
      cost::link_curves_from_json(files::contents(folder / "other"), "other").at(0).curves;
  ASSERT_EQ(there.size(), 3u);
  // Summed up, a part goes to the other rank and its sum comes back; else only one of the two does.
  const std::vector<std::pair<std::string, int64_t>> kinds = {
      {"all_reduce", 1}, {"all_gather", 2}, {"reduce_scatter", 2}};
  for (size_t i = 0; i < kinds.size(); ++i) {
    const auto& [op, share] = kinds[i];
    EXPECT_EQ(own.curves[i].op, op);
    ASSERT_EQ(own.curves[i].samples.size(), 3u) << op;
    ASSERT_EQ(there[i].samples.size(), 3u) << op;
    for (size_t at = 0; at < 3; ++at) {
      const cost::LinkSample& each = own.curves[i].samples[at];
      const int64_t bytes = kLeastLinkBytes << (2 * at);
      EXPECT_EQ(each.bytes, bytes) << op;
      EXPECT_EQ(each.sent_bytes, bytes / share) << op;
      EXPECT_GT(each.ns, 0) << op;
      EXPECT_DOUBLE_EQ(each.ns, there[i].samples[at].ns) << op << ": the slower rank's";
    }
  }
  ASSERT_EQ(done.size(), 9u);
  EXPECT_EQ(steps[1], "all_reduce of 8 KiB");
  for (size_t i = 0; i < done.size(); ++i)
    EXPECT_DOUBLE_EQ(done[i], static_cast<double>(i) / 9) << steps[i];
}

}  // namespace
}  // namespace ridge::measure
