// SPDX-License-Identifier: Apache-2.0
// The format of numbers: units, digits and the limits at which the next unit begins.
#include "base/units.h"

#include <gtest/gtest.h>

#include <utility>

namespace ridge {
namespace {

TEST(FormatBytes, ChangesUnitAtPowersOf1024) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1), "1 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(31977984LL * 4), "122 MiB");
  EXPECT_EQ(format_bytes(1LL << 40), "1.00 TiB");
  EXPECT_EQ(format_bytes(INT64_MAX), "8.00 EiB");
  EXPECT_EQ(format_bytes(-2048), "-2.00 KiB");
}

TEST(FormatBytes, NeverShowsFourDigitsOfALargerUnit) {
  EXPECT_EQ(format_bytes((1LL << 20) - 1), "1.00 MiB");
  EXPECT_EQ(format_bytes(1023LL << 10), "1023 KiB");
}

TEST(FormatCount, HasThreeDigitsAndADecimalPrefix) {
  EXPECT_EQ(format_count(31977984), "32.0 M");
  EXPECT_EQ(format_count(203.4e9), "203 G");
  EXPECT_EQ(format_count(999.4), "999");
  EXPECT_EQ(format_count(999.6), "1.00 k");
  EXPECT_EQ(format_count(9.994), "9.99");
  EXPECT_EQ(format_count(9.996), "10.0");
  EXPECT_EQ(format_count(99.96), "100");
  EXPECT_EQ(format_count(-1500), "-1.50 k");
}

TEST(FormatRate, PutsThePrefixOnTheUnit) {
  EXPECT_EQ(format_rate(214e9, "FLOP/s"), "214 GFLOP/s");
  EXPECT_EQ(format_rate(19.5e9, "B/s"), "19.5 GB/s");
  EXPECT_EQ(format_rate(12.34, "samples/s"), "12.3 samples/s");
}

TEST(FormatNs, ChoosesTheUnit) {
  const std::pair<double, const char*> cases[] = {
      {1.43e9, "1.43 s"},   {12.1e6, "12.1 ms"},        {850e3, "850 us"}, {7, "7.00 ns"},
      {999.6e3, "1.00 ms"}, {999.6e6, "1.00 s"},        {179e9, "179 s"},  {600e9, "10.0 min"},
      {36000e9, "10.0 h"},  {86400e9 * 30, "30.0 days"}};
  for (const auto& [ns, text] : cases) EXPECT_EQ(format_ns(ns), text);
}

TEST(FormatInteger, GroupsByThree) {
  EXPECT_EQ(format_integer(0), "0");
  EXPECT_EQ(format_integer(999), "999");
  EXPECT_EQ(format_integer(1000), "1,000");
  EXPECT_EQ(format_integer(31977984), "31,977,984");
  EXPECT_EQ(format_integer(-100000), "-100,000");
  EXPECT_EQ(format_integer(INT64_MAX), "9,223,372,036,854,775,807");
}

}  // namespace
}  // namespace ridge
