// SPDX-License-Identifier: Apache-2.0
// The format of numbers: units, digits and the limits at which the next unit begins.
#include "base/units.h"

#include <gtest/gtest.h>

#include "base/error.h"

#include <iterator>
#include <string>
#include <utility>
#include <vector>

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

// Digits and units change where three digits round to the next power.
TEST(Format, ChangesAtItsThresholds) {
  using Cases = std::vector<std::pair<double, const char*>>;
  for (const auto& [value, text] : Cases{{0, "0.0"},
                                         {0.0049, "0.00"},
                                         {9.994, "9.99"},
                                         {9.996, "10.0"},
                                         {99.94, "99.9"},
                                         {99.96, "100"},
                                         {999.4, "999"},
                                         {999.6, "1.00 k"},
                                         {999.4e3, "999 k"},
                                         {999.6e3, "1.00 M"},
                                         {999.4e6, "999 M"},
                                         {999.6e6, "1.00 G"},
                                         {999.4e9, "999 G"},
                                         {999.6e9, "1.00 T"},
                                         {999.4e12, "999 T"},
                                         {999.6e12, "1.00 P"},
                                         {999.4e15, "999 P"},
                                         {999.6e15, "1.00 E"},
                                         {4e21, "4000 E"}}) {
    EXPECT_EQ(format_count(value), text);
    const std::string unit = std::string(text).find(' ') == std::string::npos ? " x" : "x";
    EXPECT_EQ(format_rate(value, "x"), text + unit);
    if (value > 0) {
      EXPECT_EQ(format_count(-value), std::string("-") + text);
    }
  }
  for (const auto& [ns, text] : Cases{{0, "0.0 ns"},
                                      {999.4, "999 ns"},
                                      {999.6, "1.00 us"},
                                      {999.4e3, "999 us"},
                                      {999.6e3, "1.00 ms"},
                                      {999.4e6, "999 ms"},
                                      {999.6e6, "1.00 s"},
                                      {179.4e9, "179 s"},
                                      {180e9, "3.00 min"},
                                      {179.4 * 60e9, "179 min"},
                                      {180 * 60e9, "3.00 h"},
                                      {71.94 * 3600e9, "71.9 h"},
                                      {72 * 3600e9, "3.00 days"},
                                      {1000 * 86400e9, "1000 days"}}) {
    EXPECT_EQ(format_ns(ns), text);
    if (ns > 0) {
      EXPECT_EQ(format_ns(-ns), std::string("-") + text);
    }
  }
}

TEST(FormatBytes, ChangesAtItsThresholds) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  for (size_t i = 1; i < std::size(units); ++i) {
    const int64_t unit = int64_t{1} << (10 * i), below = unit / 1024;
    EXPECT_EQ(format_bytes(1023 * below), std::string("1023 ") + units[i - 1]);
    EXPECT_EQ(format_bytes(unit), std::string("1.00 ") + units[i]);
    if (i == 1) continue;
    EXPECT_EQ(format_bytes(unit - below * 3 / 4), std::string("1023 ") + units[i - 1]);
    EXPECT_EQ(format_bytes(unit - below / 4), std::string("1.00 ") + units[i]);
  }
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

TEST(ParseBytes, ReadsNumbersWithUnits) {
  for (const auto& [text, bytes] :
       std::vector<std::pair<std::string, int64_t>>{{"0", 0},
                                                    {"500000", 500'000},
                                                    {"12B", 12},
                                                    {"4GiB", int64_t{4} << 30},
                                                    {"1.5 GB", 1'500'000'000},
                                                    {"2K", 2000},
                                                    {"3MiB", 3 << 20},
                                                    {"2TB", 2'000'000'000'000}})
    EXPECT_EQ(parse_bytes(text, "kv-memory"), bytes) << text;
  for (const char* text : {"", "GiB", "-1", "nan", "inf", "1e400", "4 GiBs", "4Gib", "1PB", "9e30"})
    EXPECT_THROW(parse_bytes(text, "kv-memory"), Error) << text;
}

}  // namespace
}  // namespace ridge
