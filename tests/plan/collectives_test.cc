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

}  // namespace
}  // namespace ridge::plan
