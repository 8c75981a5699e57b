// SPDX-License-Identifier: Apache-2.0
// Bars and plots, character by character.
#include "base/canvas.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <sstream>

#include "base/error.h"

namespace ridge {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(TextBar, FillsEighths) {
  EXPECT_EQ(text_bar(0, 4), "    ");
  EXPECT_EQ(text_bar(1, 4), "████");
  EXPECT_EQ(text_bar(0.5, 4), "██  ");
  EXPECT_EQ(text_bar(1.0 / 32, 4), "▏   ");
  EXPECT_EQ(text_bar(31.0 / 32, 4), "███▉");
  EXPECT_EQ(text_bar(0.5, 0), "");
}

TEST(TextBar, CutsSharesOutsideTheRange) {
  EXPECT_EQ(text_bar(1.7, 3), "███");
  EXPECT_EQ(text_bar(-1, 3), "   ");
  EXPECT_EQ(text_bar(kNaN, 3), "   ");
}

// The rows of the plot without the title, the axis and the ticks.
std::vector<std::string> rows(const Canvas& canvas) {
  std::istringstream lines(canvas.str());
  std::vector<std::string> rows;
  for (std::string line; std::getline(lines, line);) {
    size_t axis = std::min(line.find("│"), line.find("┤"));
    if (axis != std::string::npos) rows.push_back(line.substr(axis + std::string("│").size()));
  }
  return rows;
}

Canvas square() { return {8, 4, {1, 1e8, "x"}, {1, 1e4, "y"}}; }

TEST(Canvas, DrawsAxesWithPowersOfTen) {
  Canvas canvas(24, 4, {0.1, 1000, "FLOP/byte"}, {1e9, 1e11, "FLOP/s"});
  EXPECT_EQ(canvas.str(),
            "      FLOP/s\n"
            "100 G ┤\n"
            "      │\n"
            " 10 G ┤\n"
            "  1 G ┤\n"
            "      └┬─────┬─────┬─────┬────┬\n"
            "      0.1    1    10    100  1 k\n"
            "                      FLOP/byte\n");
}

TEST(Canvas, ANarrowAxisIsTickedAtTwosAndFives) {
  Canvas canvas(24, 4, {1.5, 60, "x"}, {1, 10, "y"});
  std::string text = canvas.str();
  for (const char* label : {" 2 ", " 5 ", "10 ", "20 ", " 50"})
    EXPECT_NE(text.find(label), std::string::npos) << text;
}

TEST(Canvas, ALineOfConstantYIsLevel) {
  Canvas canvas = square();
  canvas.line(1, 100, 1e8, 100);  // on the border of the second and third of four rows
  EXPECT_EQ(rows(canvas), (std::vector<std::string>{"", "", "⠉⠉⠉⠉⠉⠉⠉⠉", ""}));
}

TEST(Canvas, LinesOnTheEdgesAreSeen) {
  Canvas canvas = square();
  canvas.line(1, 1e4, 1e8, 1e4);
  canvas.line(1, 1, 1e8, 1);
  EXPECT_EQ(rows(canvas)[0], "⠉⠉⠉⠉⠉⠉⠉⠉");
  EXPECT_EQ(rows(canvas)[3], "⣀⣀⣀⣀⣀⣀⣀⣀");
  Canvas upright = square();
  upright.line(1, 1, 1, 1e4);
  upright.line(1e8, 1, 1e8, 1e4);
  for (const std::string& row : rows(upright)) EXPECT_EQ(row, "⡇      ⢸");
}

TEST(Canvas, ADiagonalGoesFromCornerToCorner) {
  Canvas canvas = square();
  canvas.line(1, 1, 1e8, 1e4);
  // 16 x 16 dots, one per column and row, so each pair of characters of the slope has four.
  EXPECT_EQ(rows(canvas), (std::vector<std::string>{"      ⡠⠊", "    ⡠⠊", "  ⡠⠊", "⡠⠊"}));
}

TEST(Canvas, EndsFarOutsideAreCut) {
  Canvas inside = square(), outside = square();
  inside.line(1, 100, 1e8, 100);
  outside.line(1e-300, 100, 1e300, 100);
  EXPECT_EQ(outside.str(), inside.str());
  Canvas empty = square(), bad = square();
  bad.line(0, 1, 10, 10);
  bad.line(1, kNaN, 10, 10);
  bad.line(1, 1, kInfinity, 10);
  bad.line(1e9, 1e5, 1e12, 1e6);
  EXPECT_EQ(bad.str(), empty.str());
}

TEST(Canvas, PointsAreLetteredInTurn) {
  Canvas canvas = square();
  EXPECT_EQ(canvas.point(1.1, 1.1), 'a');
  EXPECT_EQ(canvas.point(0.9e8, 0.9e4), 'b');
  EXPECT_EQ(rows(canvas), (std::vector<std::string>{"       b", "", "", "a"}));
}

TEST(Canvas, ATakenPlaceMovesThePointBeside) {
  Canvas canvas = square();
  canvas.point(1.1e4, 1.1);
  canvas.point(1.1e4, 1.1);
  EXPECT_EQ(rows(canvas)[3], "    ab");
  canvas.point(1.1e4, 1.1);
  canvas.point(1.1e4, 1.1);  // two to the side is as near as one above
  EXPECT_EQ(rows(canvas)[3], "   cabd");
}

TEST(Canvas, EveryPointIsSeenUntilThePlotIsFull) {
  Canvas canvas = square();
  for (int i = 0; i < 32; ++i) canvas.point(100, 100);
  std::string all;
  for (const std::string& row : rows(canvas)) all += row;
  EXPECT_EQ(std::set<char>(all.begin(), all.end()).size(), 32u);
  canvas.point(100, 100);  // no room, but nothing breaks
  for (int i = 33; i < 52; ++i) canvas.point(100, 100);
  EXPECT_EQ(canvas.point(1, 1), '*');
}

TEST(Canvas, PointsOffThePlotSitAtTheEdge) {
  Canvas canvas = square();
  canvas.point(0, kInfinity);
  canvas.point(1e30, -5);
  canvas.point(kNaN, kNaN);
  EXPECT_EQ(rows(canvas), (std::vector<std::string>{"a", "", "", "c      b"}));
}

TEST(Canvas, LabelsKeepInsideAndBesidePointsAndLabels) {
  Canvas canvas = square();
  canvas.point(1.1e6, 1.1);
  canvas.label(0.9e8, 1, "größe");  // the row above has room
  canvas.label(0.9e8, 1, "zwei");
  EXPECT_EQ(rows(canvas), (std::vector<std::string>{"", "    zwei", "   größe", "      a"}));
  canvas.label(1, 1e4, "too long for it");
  canvas.point(1.1e7, 200);  // below a label
  EXPECT_EQ(rows(canvas),
            (std::vector<std::string>{"       b", "    zwei", "   größe", "      a"}));
}

TEST(Canvas, LabelsAvoidLines) {
  Canvas canvas = square();
  canvas.line(1, 100, 1e8, 100);
  canvas.label(1, 100, "roof");
  EXPECT_EQ(rows(canvas)[2], "⠉⠉⠉⠉⠉⠉⠉⠉");
  EXPECT_EQ(rows(canvas)[1], "roof");
}

TEST(Canvas, RefusesAnAxisWithoutExtent) {
  EXPECT_THROW(Canvas(8, 4, {0, 1, "x"}, {1, 2, "y"}), Error);
  EXPECT_THROW(Canvas(8, 4, {1, 2, "x"}, {2, 2, "y"}), Error);
  EXPECT_THROW(Canvas(8, 4, {1, kInfinity, "x"}, {1, 2, "y"}), Error);
  EXPECT_THROW(Canvas(8, 4, {kNaN, 2, "x"}, {1, 2, "y"}), Error);
}

TEST(Canvas, PointsAreBoldWhereColourIsOn) {
  Canvas canvas = square();
  canvas.point(1, 1);
  EXPECT_NE(canvas.str({.colour = true}).find("\x1b[1ma\x1b[0m"), std::string::npos);
  EXPECT_EQ(canvas.str().find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace ridge
