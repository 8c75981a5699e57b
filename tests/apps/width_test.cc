// SPDX-License-Identifier: Apache-2.0
// The output of commands fits a terminal's width, and text of models does not act on it.
#include <fcntl.h>
#include <pty.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/program_run.h"
#include "report/terminal.h"

namespace ridge::apps {
namespace {

class WidthTest : public ProgramTest {
 protected:
  // The output on a terminal of this width, without line ends' carriage returns.
  std::string on_terminal(std::vector<std::string> arguments, int columns) const {
    winsize size{
        .ws_row = 24, .ws_col = static_cast<uint16_t>(columns), .ws_xpixel = 0, .ws_ypixel = 0};
    int terminal = -1;
    arguments.insert(arguments.begin(), ridge_program());
    const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
    if (child == 0) {
      ::dup2(::open("/dev/null", O_WRONLY), STDERR_FILENO);  // progress bars are drawn over
      std::vector<char*> argv;
      for (std::string& each : arguments) argv.push_back(each.data());
      argv.push_back(nullptr);
      if (::chdir(folder_.path().c_str()) == 0) ::execv(ridge_program(), argv.data());
      ::_exit(127);
    }
    std::string text;
    std::array<char, 4096> part;
    for (ssize_t size_read; (size_read = ::read(terminal, part.data(), part.size())) > 0;)
      text.append(part.data(), static_cast<size_t>(size_read));
    ::close(terminal);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << text;
    std::erase(text, '\r');
    return text;
  }

  void expect_fits(const std::vector<std::string>& arguments, int columns) const {
    const std::string text = on_terminal(arguments, columns);
    EXPECT_FALSE(text.empty());
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("  ridge ")) continue;  // an example, to be copied
      EXPECT_LE(report::display_width(line), columns)
          << arguments[0] << " " << columns << ": " << line;
    }
  }
};

TEST_F(WidthTest, TextOfAModelDoesNotActOnTheTerminal) {
  const std::string hostile =
      "\x1b[2J\xC2\x9B"
      "31m\x7f\xE2\x80\xAE";
  files::write_plain(folder_ / "text", "one two three two one");
  ASSERT_EQ(run({"tokenizer", "train", "text", "--vocab-size", "260", "--special-token", hostile,
                 "--out", "model"})
                .code,
            0);
  std::vector<std::string> decode{"tokenizer", "decode", "model", "--ids", "0", "--special"};
  EXPECT_EQ(run(decode).out, hostile) << "raw in a pipe";
  EXPECT_EQ(on_terminal(decode, 80), "\\x1b[2J\\x9b31m\\x7f\xE2\x80\xAE");
  decode.emplace_back("--json");
  const std::string line = on_terminal(decode, 80);
  EXPECT_EQ(nlohmann::json::parse(line)["text"], hostile);
  for (char c : line) EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << line;
}

// Every command's help, in a file as on a terminal: no line is too wide, and the usage begins one.
TEST_F(WidthTest, HelpOfEachCommandFits) {
  std::vector<std::vector<std::string>> commands{{"--help"}};
  for (size_t i = 0; i < commands.size(); ++i) {
    for (const std::string& text :
         {run(commands[i]).out, on_terminal(commands[i], 80), on_terminal(commands[i], 100)}) {
      EXPECT_NE(text.find("\nUsage: ridge "), std::string::npos) << text;
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);)
        EXPECT_LE(report::display_width(line), 100) << text;
    }
    std::istringstream lines(run(commands[i]).out);
    bool is_listed = false;
    for (std::string line; std::getline(lines, line);) {
      if (is_listed && line.starts_with("  ") && line[2] != ' ') {
        commands.push_back(commands[i]);
        commands.back().insert(commands.back().end() - 1, line.substr(2, line.find(' ', 2) - 2));
      }
      is_listed = line == "Subcommands:" || (is_listed && !line.empty());
    }
  }
  EXPECT_GT(commands.size(), 30u);
}

TEST_F(WidthTest, HelpFillsTheLinesOfATerminal) {
  for (int columns : {60, 80, 100}) {
    for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
             {"plan", "--help"}, {"bench", "attention", "--help"}, {"serve", "--help"}}) {
      const std::string text = on_terminal(arguments, columns);
      EXPECT_NE(text.find("\n\nOptions:\n"), std::string::npos) << text;
      constexpr size_t kNames = 30;  // columns of the options' names
      const auto goes_on = [](const std::string& line) {
        return line.find_first_not_of(' ') == kNames;
      };
      std::istringstream lines(text);
      std::string before;
      int compared = 0;
      for (std::string line; std::getline(lines, line); before = line) {
        if (!goes_on(before) || !goes_on(line)) continue;
        const std::string word = line.substr(kNames, line.find(' ', kNames) - kNames);
        EXPECT_GT(report::display_width(before + " " + word), columns) << before << "\n" << line;
        ++compared;
      }
      EXPECT_GE(compared, 2) << arguments[0] << " " << columns;
    }
  }
}

TEST_F(WidthTest, CommandsFitTheTerminal) {
  const std::string model = test_data("models/llama_fp32").string();
  const std::string run = test_data("runs/version_1").string();
  std::filesystem::create_symlink(model, folder_ / "model");
  std::filesystem::create_symlink(run, folder_ / "run");
  for (int columns : {80, 100}) {
    for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
             {"plan", "--preset", "tiny", "--hardware", "h100"},
             {"plan", "--preset", "tiny", "--device", "cpu", "--threads", "1"},
             {"plan", "--preset", "tiny", "--inference", "--hardware", "h200"},
             {"explain", "--preset", "tiny", "--device", "cpu", "--threads", "1"},
             {"explain", "--preset", "tiny", "--device", "cpu", "--threads", "1", "--op", "matmul"},
             {"explain", "--preset", "tiny", "--device", "cpu", "--threads", "1", "--node", "%12"},
             {"explain", "--passes"},
             {"--help"},
             {"plan", "--help"},
             {"tokenizer", "train", "--help"},
             {"inspect", "model"},
             {"perplexity", "model", "--ids", "1,2,3,4,5"},
             {"bench", "op", "matmul", "--sweep", "n=k=m=8:32*2", "--fit", "--threads", "1",
              "--seconds", "0.01"},
             {"bench", "op", "--help"},
             {"bench", "module", "mlp", "--config", "tiny", "--seq-len", "8", "--threads", "1",
              "--seconds", "0.01"},
#ifdef RIDGE_COURSES
             {"demo", "list"},
             {"demo", "precision", "--budget", "1s", "--threads", "1"},
#endif
             {"train", "--preset", "tiny", "--steps", "2", "--batch-size", "1", "--seq-len", "8"},
             {"explain", "run"},
             {"diff", "run", "run"},
             {"machine", "--device", "cpu", "--threads", "1"},
             {"bench", "model", "model", "-p", "4", "-n", "2", "-r", "2", "--device", "cpu", "-t",
              "1", "--operations"},
             {"infer-lab", "model", "--device", "cpu", "--threads", "1", "--seconds", "1", "--out",
              "study", "--force"},
             tiny({"lab", "--steps", "2", "--level", "baseline,fused,compiled", "--batch-size",
                   "1,2", "--seq-len", "8", "--out", "lab", "--force"})})
      expect_fits(arguments, columns);
  }
}

}  // namespace
}  // namespace ridge::apps
