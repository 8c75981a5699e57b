// SPDX-License-Identifier: Apache-2.0
// Shapes and sweeps: what they visit, and what they refuse before anything is allocated.
#include "bench/extents.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ridge::bench {
namespace {

const std::vector<Letter> kLetters{{"n", 8, "rows"}, {"k", 16, "summed"}, {"m", 4, "columns"}};

std::vector<std::string> visited(const std::string& sweep, const std::string& shape = "") {
  std::vector<std::string> names;
  for (const record::Extents& each :
       points(kLetters, shape.empty() ? record::Extents() : parse_extents(shape, "shape"),
              parse_sweeps(sweep, "sweep")))
    names.push_back(record::str(each));
  return names;
}

template <typename Call>
void expect_refused(const Call& call, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "not refused: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

using Names = std::vector<std::string>;

TEST(Extents, SweepsGrowByFactorsStepsAndLists) {
  EXPECT_EQ(visited("n=2:9*2"), (Names{"n=2,k=16,m=4", "n=4,k=16,m=4", "n=8,k=16,m=4"}));
  EXPECT_EQ(visited("m=1:7+3"), (Names{"n=8,k=16,m=1", "n=8,k=16,m=4", "n=8,k=16,m=7"}));
  EXPECT_EQ(visited("k=3:4"), (Names{"n=8,k=3,m=4", "n=8,k=4,m=4"}));
  EXPECT_EQ(visited("k=1,7,9:10"),
            (Names{"n=8,k=1,m=4", "n=8,k=7,m=4", "n=8,k=9,m=4", "n=8,k=10,m=4"}));
}

TEST(Extents, LettersVaryTogetherAndSweepsCombine) {
  EXPECT_EQ(visited("n=k=m=1:4*4"), (Names{"n=1,k=1,m=1", "n=4,k=4,m=4"}));
  EXPECT_EQ(visited("n=1,2,k=m=5,6"),
            (Names{"n=1,k=5,m=5", "n=1,k=6,m=6", "n=2,k=5,m=5", "n=2,k=6,m=6"}));
  EXPECT_EQ(visited("n=1", "k=m=9"), Names{"n=1,k=9,m=9"});
}

TEST(Extents, AreRefusedWhereTheyCannotBe) {
  expect_refused([] { parse_extents("n", "shape"); }, "[shape] expected letters");
  expect_refused([] { parse_extents("n=", "shape"); }, "[shape] expected a whole number");
  expect_refused([] { parse_extents("n=1.5", "shape"); }, "[shape] expected a whole number");
  expect_refused([] { parse_extents("n=0", "shape"); }, "got 0");
  expect_refused([] { parse_extents("n=-4", "shape"); }, "got -4");
  expect_refused([] { parse_extents("n=99999999999999999999", "shape"); },
                 "expected extents from 1");
  expect_refused([] { parse_extents("n=1,n=2", "shape"); }, "n twice");
  expect_refused([] { parse_extents("N=1", "shape"); }, "expected letters");
  expect_refused([] { parse_sweeps("1,2", "sweep"); }, "[sweep] expected letters");
  expect_refused([] { parse_sweeps("n=9:2", "sweep"); }, "from small to large");
  expect_refused([] { parse_sweeps("n=1:8*1", "sweep"); }, "factor of at least 2");
  expect_refused([] { parse_sweeps("n=1:8+0", "sweep"); }, "from 1 to");
  expect_refused([] { parse_sweeps("n=1:1000000", "sweep"); }, "at most 10000 points");
  expect_refused([] { visited("n=1:1000,k=1:1000"); }, "at most 10000 points");
  expect_refused([] { visited("x=1:2"); }, "expected the letters n (rows, 8)");
  expect_refused([] { visited("n=1:2", "n=4"); }, "n twice");
  // The largest extent ends a geometric sweep before it overflows.
  EXPECT_EQ(visited("n=549755813888:1099511627776*2").size(), 2u);
}

}  // namespace
}  // namespace ridge::bench
