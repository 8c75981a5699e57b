// SPDX-License-Identifier: Apache-2.0
// Figures that follow from formulas and files alone, without a measurement: the whole output of
// each command in tests/golden/figures/commands.txt, on machines that are not here. A change of a
// formula, a count or a table shows there as a difference.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <regex>

#include "apps/program_run.h"
#include "base/split.h"
#include "golden_text.h"

namespace ridge::apps {
namespace {

class FiguresTest : public ProgramTest {
 protected:
  // DATA is a link: lines break alike, however long the path of the data is.
  FiguresTest() { std::filesystem::create_directory_symlink(test_data(""), folder_ / "DATA"); }

  // Runs "WORD ... > FILE ...", and returns its output and those files.
  std::string figures_of(const std::string& command) const {
    const std::vector<std::string> words = split(command, ' ');
    const auto files = std::find(words.begin(), words.end(), ">");
    const Output output = run({words.begin(), files});
    EXPECT_EQ(output.code, 0) << command << "\n" << output.err;
    std::string text = "ridge " + command + "\n\n" + output.out;
    for (auto file = files; file != words.end() && ++file != words.end();)
      text += "\n-- " + *file + "\n" + files::contents(folder_ / *file);
    return comparable(text);
  }

 private:
  // Without what differs between machines: times of day, and the last bits of exp and log.
  static std::string comparable(const std::string& text) {
    static const std::regex time("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z"),
        number("[0-9]+\\.[0-9]+(e[+-]?[0-9]+)?");
    const std::string masked = std::regex_replace(text, time, "TIME");
    std::string out;
    auto rest = masked.begin();
    for (std::sregex_iterator each(masked.begin(), masked.end(), number), end; each != end;
         ++each) {
      std::array<char, 32> rounded;
      std::snprintf(rounded.data(), rounded.size(), "%.6g", std::stod(each->str()));
      out.append(rest, (*each)[0].first);
      out += each->length() > 7 ? rounded.data() : each->str();
      rest = (*each)[0].second;
    }
    out.append(rest, masked.end());
    std::erase(out, '\r');  // git stores files of text without
    return out;
  }
};

TEST_F(FiguresTest, AreThoseOfTheGoldenTexts) {
  std::ifstream commands(source_file("tests/golden/figures/commands.txt"));
  int count = 0;
  for (std::string line; std::getline(commands, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    const size_t colon = line.find(": ");
    ASSERT_NE(colon, std::string::npos) << line;
    expect_golden("figures/" + line.substr(0, colon) + ".txt", figures_of(line.substr(colon + 2)));
    ++count;
  }
  EXPECT_GT(count, 30);
}

}  // namespace
}  // namespace ridge::apps
