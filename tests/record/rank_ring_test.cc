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

TEST(RankRing, SaysWhatEachRankEndedLast) {
  std::vector<RankRing> rings = {ring(0, 5), ring(1, 0)};
  const Hang hang = find_hang(rings);
  EXPECT_EQ(hang.kind, Hang::Kind::kNone);
  EXPECT_EQ(hang.str(),
            "no rank waits in a collective; rank 0 (process 40 on a, runs) ended collective 4 5.5 "
            "s ago: all_reduce of data_parallel (node 7 of step, 1.00 KiB), rank 1 (process 41 on "
            "a, runs) has none yet");
  EXPECT_EQ(find_hang({}).str(), "no rank waits in a collective; ");
}

TEST(RankRing, SaysThatARankHasNotArrivedInAny) {
  std::vector<RankRing> rings = {ring(0, 1), ring(1, 0)};
  wait(rings[0]);
  const Hang hang = find_hang(rings);
  EXPECT_EQ(hang.kind, Hang::Kind::kAbsent);
  EXPECT_TRUE(hang.str().starts_with(
      "rank 1 (process 41 on a, runs) has not arrived in any in collective 0 of group data: "))
      << hang.str();
  EXPECT_TRUE(hang.str().ends_with("; rank 0 has waited 10.0 s")) << hang.str();
}

TEST(RankRing, WaitsForTheFirstThatWaits) {
  std::vector<RankRing> rings = {ring(0, 5, "data"), ring(1, 3, "tensor", 1)};
  wait(rings[0]), wait(rings[1]);
  EXPECT_EQ(find_hang(rings).collective.group, "tensor") << "it began at 2 s, the other at 4";
  EXPECT_EQ(find_hang(rings).collective.number, 2);
}

// Both ranks in the same collective, then one in an earlier one.
TEST(RankRing, NamesAllWhoFirstHadAValueThatIsNotFinite) {
  std::vector<RankRing> rings = {ring(0, 5), ring(1, 5)};
  EXPECT_EQ(find_hang(rings).not_finite, "");
  rings[0].collectives[3].is_finite = rings[1].collectives[3].is_finite = false;
  EXPECT_EQ(find_hang(rings).not_finite,
            "rank 0, 1 was the first with a value that is not finite, in collective 3: all_reduce "
            "of data_parallel (node 7 of step, 1.00 KiB)");
  rings[1].collectives[2].is_finite = false;
  EXPECT_TRUE(find_hang(rings).not_finite.starts_with("rank 1 was the first")) << "in 2";
  EXPECT_NE(find_hang(rings).not_finite.find("in collective 2:"), std::string::npos);
}

TEST(RankRing, KindsHaveNames) {
  EXPECT_EQ(name(Hang::Kind::kNone), "none");
  EXPECT_EQ(name(Hang::Kind::kMismatch), "mismatch");
  EXPECT_EQ(name(Hang::Kind::kAbsent), "absent");
  EXPECT_EQ(name(Hang::Kind::kUnfinished), "unfinished");
}

TEST(RankRing, FilesHaveAllFields) {
  files::ScratchFolder folder;
  RankRing made = ring(1, 2);
  wait(made);
  made.collectives[0].is_finite = false;
  made.collectives[1].node = -1;
  made.error = "an error", made.state = "failed";
  write_ring(folder.path(), made);
  const RankRing read = read_rings(folder.path()).at(0);
  EXPECT_EQ(read.job, "job");
  EXPECT_EQ(read.rank, 1);
  EXPECT_EQ(read.ranks, 2);
  EXPECT_EQ(read.host, "a");
  EXPECT_EQ(read.process, 41);
  EXPECT_EQ(read.state, "failed");
  EXPECT_EQ(read.error, "an error");
  EXPECT_EQ(read.at_s, 10);
  EXPECT_EQ(read.groups, made.groups);
  ASSERT_EQ(read.collectives.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const RingedCollective &own = read.collectives[i], &want = made.collectives[i];
    EXPECT_EQ(own.str(), want.str());
    EXPECT_EQ(own.number, want.number);
    EXPECT_EQ(own.begin_s, want.begin_s);
    EXPECT_EQ(own.end_s, want.end_s);
    EXPECT_EQ(own.is_waiting(), i == 1);
    EXPECT_EQ(own.is_finite, want.is_finite);
  }
  files::write_plain(folder / "rank-1.txt", "");
  std::filesystem::remove(folder / "rank-1.json");
  files::expect_error(
      [&] { read_rings(folder.path()); }, ExitCode::kBadFile,
      "[hang] expected rank-0.json and others in " + folder.path().string() + ", found none");
}

}  // namespace
}  // namespace ridge::record
