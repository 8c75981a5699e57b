// SPDX-License-Identifier: Apache-2.0
// Tests of the comparison of ranks: what one rank exchanges, all others exchange at the same place.
#include "plan/collectives.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/builder.h"
#include "ops/registry.h"

namespace ridge::plan {
namespace {

struct Exchange {
  Shape shape;
  DType dtype = DType::kF32;
  int64_t ranks = 2;
};

std::string text_of(const std::vector<Exchange>& exchanges) {
  Graph graph;
  Builder b(graph, ops::table());
  int i = 0;
  for (const Exchange& each : exchanges)
    b.call("all_reduce", {b.state(fmt::format("x{}", i++), {each.dtype, each.shape})},
           {{"group", "data"}, {"ranks", each.ranks}});
  std::vector<Collective> all;
  append_collectives("step", graph, all);
  EXPECT_EQ(all.size(), exchanges.size());
  return collectives_text(all);
}

std::string mismatch(const std::vector<std::string>& texts) { return first_mismatch(texts); }

TEST(Collectives, MatchOnEqualRanks) {
  const std::string one = text_of({{{4, 8}}, {{3}}});
  EXPECT_EQ(mismatch({one}), "");
  EXPECT_EQ(mismatch({one, one, one}), "");
  EXPECT_EQ(mismatch({}), "");
}

TEST(Collectives, NameTheRankAndThePlaceThatDiffer) {
  const std::string good = text_of({{{4, 8}}, {{3}}});
  for (const std::vector<Exchange>& bad : std::vector<std::vector<Exchange>>{
           {{{4, 8}}, {{5}}},                  // another shape
           {{{4, 8}}, {{3}, DType::kBF16}},    // another type
           {{{4, 8}}, {{3}, DType::kF32, 4}},  // another group
           {{{4, 8}}},                         // one less
       }) {
    const std::string found = mismatch({good, good, text_of(bad)});
    EXPECT_NE(found.find("collective 1: rank 0 has all_reduce"), std::string::npos) << found;
    EXPECT_NE(found.find("rank 2 has"), std::string::npos) << found;
  }
  // Another order differs in the first.
  const std::string swapped = mismatch({good, text_of({{{3}}, {{4, 8}}})});
  EXPECT_NE(swapped.find("collective 0"), std::string::npos) << swapped;
  // One more.
  EXPECT_NE(mismatch({good, text_of({{{4, 8}}, {{3}}, {{1}}})}).find("rank 0 has nothing"),
            std::string::npos);
}

TEST(Collectives, SendTheBytesOfARing) {
  Graph graph;
  Builder b(graph, ops::table());
  b.call("all_reduce", {b.state("x", {DType::kBF16, {4, 8}})},
         {{"group", "data"}, {"ranks", int64_t{4}}});
  std::vector<Collective> all;
  append_collectives("step", graph, all);
  EXPECT_EQ(all[0].sent_bytes, 2 * 3 * 64 / 4);
  EXPECT_EQ(collectives_text(all), "all_reduce in step:  over 4 ranks of data (bf16[4,8])\n");
}

TEST(Collectives, GatherAndScatterSendHalfOfAReduction) {
  Graph graph;
  Builder b(graph, ops::table());
  const Attrs attrs{{"group", "data"}, {"ranks", int64_t{4}}, {"axis", int64_t{1}}};
  const ValueId part = b.call("reduce_scatter", {b.state("x", {DType::kBF16, {4, 8}})}, attrs);
  EXPECT_EQ(b.shape(part), (Shape{4, 2}));
  EXPECT_EQ(b.shape(b.call("all_gather", {part}, attrs)), (Shape{4, 8}));
  std::vector<Collective> all;
  append_collectives("step", graph, all);
  for (const Collective& each : all) EXPECT_EQ(each.sent_bytes, 3 * 64 / 4) << each.op;
  EXPECT_EQ(collectives_text(all),
            "reduce_scatter in step:  over 4 ranks of data (bf16[4,8])\n"
            "all_gather in step:  over 4 ranks of data (bf16[4,2])\n");
  EXPECT_THROW(b.call("reduce_scatter", {b.state("y", {DType::kF32, {4, 6}})}, attrs), Error);
}

// --- Stages of a pipeline. ---

// A transfer to or from another stage, or a sum over all stages, of f32[elements].
struct Step {
  enum Kind { kSend, kReceive, kSum } kind;
  int64_t elements = 4, other = 0;
};

std::string text_of(int64_t stage, int64_t stages, const std::vector<Step>& steps) {
  Graph graph;
  Builder b(graph, ops::table());
  for (const Step& each : steps) {
    const std::string pair = stage_pair(stage, each.other, stages);
    const Attrs among{{"group", pair}, {"ranks", int64_t{2}}};
    const ValueId x = b.state(fmt::format("x{}", each.elements), {DType::kF32, {each.elements}});
    if (each.kind == Step::kSend)
      b.call("send", {x}, among);
    else if (each.kind == Step::kReceive)
      b.call("receive", {},
             {{"group", pair},
              {"ranks", int64_t{2}},
              {"shape", std::vector<int64_t>{each.elements}},
              {"dtype", "f32"}});
    else
      b.call("all_reduce", {x}, {{"group", kPipelineGroup}, {"ranks", stages}});
  }
  std::vector<Collective> all;
  append_collectives("step", graph, all);
  return collectives_text(all);
}

std::string walk(const std::vector<std::vector<Step>>& ranks) {
  const int64_t stages = std::ssize(ranks);
  std::vector<std::string> texts;
  for (int64_t stage = 0; stage < stages; ++stage)
    texts.push_back(text_of(stage, stages, ranks[static_cast<size_t>(stage)]));
  return first_mismatch(texts, {.pipeline = stages});
}

TEST(Collectives, StagesSendWhatTheNextReceives) {
  using enum Step::Kind;
  EXPECT_EQ(walk({{{kSend, 4, 1}, {kReceive, 4, 1}, {kSum, 1}},
                  {{kReceive, 4, 0}, {kSend, 4, 0}, {kSum, 1}}}),
            "");
  EXPECT_EQ(walk({{{kSend, 4, 1}, {kReceive, 5, 2}},
                  {{kReceive, 4, 0}, {kSend, 6, 2}},
                  {{kReceive, 6, 1}, {kSend, 5, 0}}}),
            "");
}

TEST(Collectives, NameWhatStagesWaitFor) {
  using enum Step::Kind;
  const std::string size = walk({{{kSend, 4, 1}}, {{kReceive, 5, 0}}});
  EXPECT_NE(size.find("rank 0 has collective 0: send"), std::string::npos) << size;
  EXPECT_NE(size.find("f32[5]"), std::string::npos) << size;
  EXPECT_NE(walk({{{kSend, 4, 1}}, {{kSend, 4, 0}}}), "");
  const std::string missing = walk({{{kSend, 4, 1}, {kSend, 4, 1}}, {{kReceive, 4, 0}}});
  EXPECT_NE(missing.find("waits forever: rank 1 has no more"), std::string::npos) << missing;
  // Each of three waits for the next.
  const std::string ring = walk({{{kReceive, 4, 2}, {kSend, 4, 1}},
                                 {{kReceive, 4, 0}, {kSend, 4, 2}},
                                 {{kReceive, 4, 1}, {kSend, 4, 0}}});
  EXPECT_NE(ring.find("waits forever"), std::string::npos) << ring;
}

TEST(RankLayout, NamesTheMembersOfEachGroup) {
  const RankLayout layout{.data = 2, .tensor = 2, .pipeline = 3};
  const auto members = [&](std::string_view group, int64_t size, int64_t rank) {
    return layout.members(group, size, rank);
  };
  using Ranks = std::vector<int64_t>;
  EXPECT_EQ(layout.ranks(), 12);
  EXPECT_EQ(members("tensor", 2, 7), (Ranks{6, 7}));
  EXPECT_EQ(members("data", 2, 7), (Ranks{5, 7}));
  EXPECT_EQ(members("pipeline", 3, 7), (Ranks{3, 7, 11}));
  EXPECT_EQ(members(stage_pair(1, 2, 3), 2, 7), (Ranks{7, 11}));
  EXPECT_EQ(members(stage_pair(1, 0, 3), 2, 7), (Ranks{3, 7}));
  EXPECT_EQ(members(stage_pair(2, 0, 3), 2, 11), (Ranks{3, 11}));
  EXPECT_EQ(stage_pair(0, 2, 3), stage_pair(2, 0, 3));
  EXPECT_EQ(stage_pair(1, 0, 2), "pipeline.0");
}

}  // namespace
}  // namespace ridge::plan
