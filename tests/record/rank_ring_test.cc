// SPDX-License-Identifier: Apache-2.0
// Tests of the last collectives of ranks: what they say together, and their files.
#include "record/rank_ring.h"

#include <gtest/gtest.h>

#include <ctime>

#include "base/error.h"
#include "files/scratch.h"

namespace ridge::record {
namespace {

RankRing ring(int64_t rank,
              int64_t collectives,
              const std::string& group = "data",
              int64_t first = 0) {
  RankRing made{.job = "job",
                .rank = rank,
                .ranks = 2,
                .host = "a",
                .process = 40 + rank,
                .state = "runs",
                .error = "",
                .at_s = 10,
                .groups = {{group, first}},
                .collectives = {}};
  for (int64_t i = 0; i < collectives; ++i)
    made.collectives.push_back({i, group, "step", "all_reduce", "data_parallel", 7, 1024,
                                static_cast<double>(i), static_cast<double>(i) + 0.5, true});
  return made;
}
void wait(RankRing& of) { of.collectives.back().end_s = 0; }

TEST(RankRing, NamesTheRankThatHasNotArrived) {
  std::vector<RankRing> rings = {ring(0, 5), ring(1, 4)};
  wait(rings[0]);
  rings[1].state = "stopped";
  const Hang hang = find_hang(rings);
  EXPECT_EQ(hang.kind, Hang::Kind::kAbsent);
  EXPECT_EQ(hang.collective.number, 4);
  EXPECT_EQ(hang.str(),
            "rank 1 (process 41 on a, stopped) has not arrived (its last one is 3, 6.5 s ago) in "
            "collective 4 of group data: all_reduce of data_parallel (node 7 of step, 1.00 KiB); "
            "rank 0 has waited 6.0 s");
}

TEST(RankRing, NamesARankThatArrivedAndIsGone) {
  std::vector<RankRing> rings = {ring(0, 5), ring(1, 5)};
  for (RankRing& each : rings) wait(each);
  EXPECT_EQ(find_hang(rings).kind, Hang::Kind::kUnfinished);
  EXPECT_NE(find_hang(rings).str().find("all ranks have arrived in collective 4"),
            std::string::npos);
  rings[1].state = "gone";
  EXPECT_NE(find_hang(rings).str().find("rank 1 (process 41 on a, gone) does not go on in"),
            std::string::npos)
      << find_hang(rings).str();
}

TEST(RankRing, NamesTheFirstCollectiveThatDiffers) {
  std::vector<RankRing> rings = {ring(0, 5), ring(1, 5)};
  rings[1].collectives[3].op = "all_gather";
  const Hang hang = find_hang(rings);
  EXPECT_EQ(hang.kind, Hang::Kind::kMismatch);
  EXPECT_EQ(hang.collective.number, 3);
  EXPECT_NE(hang.str().find("rank 1 (process 41 on a, runs) has all_gather of data_parallel"),
            std::string::npos)
      << hang.str();
}

// Two groups of one name: ranks of the other one are not waited for.
TEST(RankRing, ComparesTheRanksOfAGroup) {
  std::vector<RankRing> rings = {ring(0, 5, "tensor", 0), ring(1, 2, "tensor", 1)};
  EXPECT_EQ(find_hang(rings).kind, Hang::Kind::kNone);
  wait(rings[1]);
  EXPECT_EQ(find_hang(rings).ranks.size(), 1u);
  EXPECT_EQ(find_hang(rings).ranks[0].rank.rank, 1);
}

TEST(RankRing, NamesWhoFirstHadAValueThatIsNotFinite) {
  std::vector<RankRing> rings = {ring(0, 5), ring(1, 5)};
  rings[0].collectives[4].is_finite = rings[1].collectives[3].is_finite = false;
  rings[1].collectives[4].is_finite = false;
  EXPECT_NE(find_hang(rings).not_finite.find("rank 1 was the first"), std::string::npos);
  EXPECT_NE(find_hang(rings).not_finite.find("in collective 3:"), std::string::npos);
}

TEST(RankRing, FilesKeepThemAndThoseOfAnEarlierRunAreLeftOut) {
  files::ScratchFolder folder;
  RankRing earlier = ring(2, 3);
  earlier.job = "earlier", earlier.ranks = 3;
  write_ring(folder.path(), earlier);
  std::filesystem::last_write_time(
      folder / "rank-2.json",
      std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  std::vector<RankRing> rings = {ring(0, 5), ring(1, 4)};
  wait(rings[0]);
  for (const RankRing& each : rings) write_ring(folder.path(), each);
  for (const char* other : {"rank-0.txt", "steps.json"})
    files::write_plain(folder / other, "no ring");
  const std::vector<RankRing> read = read_rings(folder.path());
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(find_hang(read).str(), find_hang(rings).str());
  EXPECT_EQ(hang_json(find_hang(read)).dump(), hang_json(find_hang(rings)).dump());
}

TEST(RankRing, AFolderWithoutThemOrWithOthersIsRefused) {
  files::ScratchFolder folder;
  EXPECT_THROW(read_rings(folder.path()), Error);
  files::write_plain(folder / "rank-0.json", "{\"version\": 1}");
  EXPECT_THROW(read_rings(folder.path()), Error);
  std::filesystem::remove(folder / "rank-0.json");
  std::filesystem::create_symlink(folder / "nowhere", folder / "rank-1.json");
  EXPECT_THROW(read_rings(folder.path()), Error);
}

// A file may name as many groups as it has collectives.
TEST(RankRing, ManyGroupsTakeLinearTime) {
  constexpr int64_t kMany = 50'000;
  RankRing many = ring(0, kMany);
  for (int64_t i = 0; i < kMany; ++i) {
    many.groups[std::to_string(i)] = 0;
    many.collectives[static_cast<size_t>(i)].group = std::to_string(i);
  }
  wait(many);
  const std::clock_t begin = std::clock();
  const Hang hang = find_hang(std::vector{many});
  EXPECT_LT(std::clock() - begin, 5 * CLOCKS_PER_SEC);
  EXPECT_EQ(hang.collective.group, std::to_string(kMany - 1));
}

}  // namespace
}  // namespace ridge::record
