// SPDX-License-Identifier: Apache-2.0
// Runs ridge generate --chat on a pseudo-terminal, as a user at a terminal does. What the model
// reads is tested in tests/serve/conversation_test.cc.
#include <poll.h>
#include <pty.h>

#include <random>

#include "apps/program_run.h"

namespace ridge::apps {
namespace {

constexpr int kWaitMs = 60'000;

// The program on a terminal of its own.
class OnTerminal {
 public:
  explicit OnTerminal(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), ridge_program());
    child_ = ::forkpty(&terminal_, nullptr, nullptr, nullptr);
    if (child_ != 0) return;
    std::vector<char*> argv;
    for (const std::string& each : arguments) argv.push_back(const_cast<char*>(each.c_str()));
    argv.push_back(nullptr);
    ::execv(ridge_program(), argv.data());
    ::_exit(127);
  }
  ~OnTerminal() { ::close(terminal_); }
  OnTerminal(const OnTerminal&) = delete;
  OnTerminal& operator=(const OnTerminal&) = delete;

  void type(const std::string& keys) {
    ASSERT_EQ(::write(terminal_, keys.data(), keys.size()), std::ssize(keys));
  }
  // Reads up to the next `part` and returns what came before it.
  std::string until(const std::string& part) {
    size_t at = 0;
    while ((at = seen_.find(part)) == std::string::npos)
      if (!read_more()) {
        ADD_FAILURE() << "expected " << part << "\nfound: " << seen_;
        return "";
      }
    std::string before = seen_.substr(0, at);
    seen_.erase(0, at + part.size());
    return before;
  }
  // Waits for any output.
  void more() { EXPECT_TRUE(!seen_.empty() || read_more()) << "expected more output"; }
  int finish() {
    while (read_more()) continue;
    return exit_code(child_);
  }

 private:
  bool read_more() {
    pollfd ready{terminal_, POLLIN, 0};
    std::array<char, 4096> part;
    if (::poll(&ready, 1, kWaitMs) <= 0) return false;
    const ssize_t size = ::read(terminal_, part.data(), part.size());
    if (size > 0) seen_.append(part.data(), static_cast<size_t>(size));
    return size > 0;
  }

  pid_t child_ = -1;
  int terminal_ = -1;
  std::string seen_;
};

// A model of random weights with a tokenizer of as many tokens; it answers with nonsense until
// --max-tokens.
class ChatTest : public ProgramTest {
 protected:
  void SetUp() override {
    std::string text;
    std::mt19937 random(1);
    for (int i = 0; i < 20'000; ++i)
      text += i % 5 == 4 ? ' ' : static_cast<char>('a' + random() % 26);
    files::write_plain(folder_ / "text.txt", text);
    const std::string model = folder_ / "model";
    ASSERT_EQ(run(tiny({"train", "--steps", "1", "--save", model})).code, 0);
    Output made = run({"tokenizer", "train", "text.txt", "--vocab-size", "1000", "--special-token",
                       "<|im_start|>", "--special-token", "<|im_end|>", "--out", "words"});
    ASSERT_EQ(made.code, 0) << made.err;
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
      std::filesystem::copy(folder_ / "words" / file, folder_ / "model" / file);
    // A context that takes seconds to fill.
    std::string config = files::contents(folder_ / "model" / "config.json");
    const std::string context = "\"max_position_embeddings\": ";
    const size_t at = config.find(context + "128");
    ASSERT_NE(at, std::string::npos) << config;
    config.replace(at, context.size() + 3, context + "32768");
    files::write_plain(folder_ / "model" / "config.json", config);
  }

  std::vector<std::string> chat(std::vector<std::string> more) const {
    std::vector<std::string> line{"generate", folder_ / "model", "--chat", "--chat-template",
                                  "chatml",   "--threads",       "1"};
    line.insert(line.end(), more.begin(), more.end());
    return line;
  }
};

TEST_F(ChatTest, AnswersUntilItIsLeft) {
  OnTerminal terminal(chat({"--max-tokens", "3"}));
  EXPECT_NE(terminal.until("> ").find("/exit or Ctrl-D leaves"), std::string::npos);
  terminal.type("Hello\n");
  terminal.until("prompt tokens, 3 generated");
  terminal.until("> ");
  terminal.type("\n");  // does nothing
  terminal.until("> ");
  terminal.type("And again\n");
  terminal.until("of them in the KV cache), 3 generated");
  terminal.until("> ");
  terminal.type("/clear\n");
  terminal.until("> ");
  terminal.type("Hello\n");
  terminal.until("3 generated");
  terminal.until("> ");
  terminal.type("/exit\n");
  EXPECT_EQ(terminal.finish(), 0);
}

TEST_F(ChatTest, TheEndOfTheInputLeaves) {
  OnTerminal terminal(chat({"--max-tokens", "3"}));
  terminal.until("> ");
  terminal.type("\x04");
  EXPECT_EQ(terminal.finish(), 0);
}

TEST_F(ChatTest, CtrlCStopsTheAnswerAndThenTheProgram) {
  OnTerminal terminal(chat({"--max-tokens", "1000000"}));
  terminal.until("> ");
  terminal.type("Hello\n");
  terminal.until("Hello\r\n");
  terminal.more();
  terminal.type("\x03");
  terminal.until("(interrupted)");
  terminal.until("> ");
  terminal.type("\x03");
  EXPECT_EQ(terminal.finish(), 128 + SIGINT);
}

TEST_F(ChatTest, AFullContextIsExplained) {
  OnTerminal terminal(chat({"--context", "40"}));
  terminal.until("> ");
  terminal.type("Hello\n");
  terminal.until("The context of 40 tokens is full");
  terminal.until("> ");
  terminal.type("Hello\n");
  terminal.until("The context is full: with this message");
  terminal.until("> ");
  terminal.type("/exit\n");
  EXPECT_EQ(terminal.finish(), 0);
}

TEST_F(ChatTest, APromptWithoutChatEndsByCtrlD) {
  OnTerminal terminal({"generate", folder_ / "model", "--threads", "1", "--max-tokens", "2"});
  terminal.until("Ctrl-D on an empty line ends it");
  terminal.type("Hello\nagain\n\x04");
  terminal.until("2 generated");
  EXPECT_EQ(terminal.finish(), 0);
}

TEST_F(ChatTest, APipeIsOnePrompt) {
  files::write_plain(folder_ / "prompt.txt", "Hello\nagain\n");
  // ProgramTest's stdin is that of the test, so a shell gives the file.
  EXPECT_EQ(std::system(("cd " + folder_.path().string() + " && " + ridge_program() +
                         " generate model --chat --chat-template chatml --max-tokens 2 --json "
                         "< prompt.txt > out.json")
                            .c_str()),
            0);
  EXPECT_NE(files::contents(folder_ / "out.json").find("\"finish_reason\":\"length\""),
            std::string::npos);
}

}  // namespace
}  // namespace ridge::apps
