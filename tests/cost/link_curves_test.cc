// SPDX-License-Identifier: Apache-2.0
// Tests of measured links between ranks: the law that predictions use, and their file.
#include "cost/link_curves.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ridge::cost {
namespace {

// A call of 5 us and 2 bytes a ns.
LinkCurves exact() {
  LinkCurves link{"Open MPI", 2, {}, "2026-01-01T00:00:00Z"};
  for (const auto& [op, share] : {std::pair("all_reduce", 1.0), std::pair("all_gather", 0.5)}) {
    LinkCurve& curve = link.curves.emplace_back(LinkCurve{op, {}});
    for (int64_t bytes = 2048; bytes <= int64_t{256} << 20; bytes *= 4) {
      const auto sent = static_cast<int64_t>(share * static_cast<double>(bytes));
      curve.samples.push_back({bytes, sent, 5000 + static_cast<double>(sent) / 2});
    }
  }
  return link;
}

TEST(LinkCurves, TheLawIsThatOfTheSamples) {
  const LinkRates rates = exact().rates();
  EXPECT_NEAR(rates.call_ns, 5000, 1);
  EXPECT_NEAR(rates.bytes_per_ns, 2, 1e-3);
  EXPECT_EQ(rates.ranks, 2);
  EXPECT_NEAR(rates.ns(1 << 20), 5000 + (1 << 19), 600);
}

// A small message counts as much as a large one, and no rate is infinite.
TEST(LinkCurves, AFewSamplesAreEnough) {
  const LinkCurves link{"x", 2, {{"all_reduce", {{2048, 2048, 7000}}}}, ""};
  EXPECT_NEAR(link.rates().ns(2048), 7000, 1);
  EXPECT_GT(link.rates().bytes_per_ns, 0);
  EXPECT_LE(link.rates().bytes_per_ns, 1e9);
}

TEST(LinkCurves, AreReadAsTheyWereWritten) {
  const std::vector<LinkCurves> all = {exact()};
  const std::vector<LinkCurves> read = link_curves_from_json(to_json(all), "links.json");
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(to_json(read), to_json(all));
  EXPECT_EQ(read[0].curves[1].samples[1].sent_bytes, 4096);
  EXPECT_TRUE(link_curves_from_json(to_json(std::vector<LinkCurves>()), "links.json").empty());
}

TEST(LinkCurves, ImpossibleOnesAreRefused) {
  const auto expect_refused = [](const auto& damage) {
    LinkCurves link = exact();
    damage(link);
    EXPECT_THROW(link_curves_from_json(to_json(std::vector{link}), "links.json"), Error);
  };
  expect_refused([](LinkCurves& link) { link.curves[0].samples[1].bytes = 2048; });
  expect_refused([](LinkCurves& link) { link.curves[0].samples[1].ns = 0; });
  expect_refused([](LinkCurves& link) { link.curves[0].samples[1].ns = -1; });
  expect_refused([](LinkCurves& link) { link.curves[0].samples[0].sent_bytes = -1; });
  expect_refused([](LinkCurves& link) { link.curves[0].samples.clear(); });
  expect_refused([](LinkCurves& link) { link.curves.clear(); });
  expect_refused([](LinkCurves& link) { link.ranks = -1; });
  EXPECT_THROW(link_curves_from_json("{\"format\": 2, \"links\": []}", "links.json"), Error);
  EXPECT_THROW(link_curves_from_json("[", "links.json"), Error);
}

}  // namespace
}  // namespace ridge::cost
