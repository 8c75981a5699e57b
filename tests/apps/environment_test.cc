// SPDX-License-Identifier: Apache-2.0
// Tests for the settings that the program reads from environment variables and from its terminal.
#include "apps/environment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace ridge::apps {
namespace {

// Redirects stdout and stderr to another stream during its lifetime.
class Redirected {
 public:
  explicit Redirected(int stream) {
    std::fflush(nullptr);
    for (int standard : {STDOUT_FILENO, STDERR_FILENO}) {
      saved_[standard - 1] = ::dup(standard);
      ::dup2(stream, standard);
    }
  }
  ~Redirected() {
    for (int standard : {STDOUT_FILENO, STDERR_FILENO}) {
      ::dup2(saved_[standard - 1], standard);
      ::close(saved_[standard - 1]);
    }
  }

 private:
  int saved_[2];
};

report::TerminalOptions options_on(int stream, const char* term, const char* no_color) {
  ::setenv("TERM", term, 1);
  no_color != nullptr ? ::setenv("NO_COLOR", no_color, 1) : ::unsetenv("NO_COLOR");
  Redirected redirected(stream);
  return terminal_options_from_environment();
}

TEST(TerminalOptionsFromEnvironment, AFileIsPlain) {
  std::FILE* file = std::tmpfile();
  report::TerminalOptions options = options_on(::fileno(file), "xterm", nullptr);
  std::fclose(file);
  EXPECT_FALSE(options.colour);
  EXPECT_FALSE(options.progress);
  EXPECT_EQ(options.columns, 100);
}

TEST(TerminalOptionsFromEnvironment, ATerminalHasColourUnlessToldNot) {
  int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0)
    GTEST_SKIP() << "this system gives no pseudo-terminal";
  int user_side = ::open(::ptsname(terminal), O_RDWR | O_NOCTTY);
  ASSERT_GE(user_side, 0);
  winsize size{.ws_row = 24, .ws_col = 72, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(::ioctl(user_side, TIOCSWINSZ, &size), 0);

  report::TerminalOptions full = options_on(user_side, "xterm", nullptr);
  EXPECT_TRUE(full.colour);
  EXPECT_TRUE(full.progress);
  EXPECT_EQ(full.columns, 72);
  EXPECT_FALSE(options_on(user_side, "xterm", "1").colour);
  EXPECT_FALSE(options_on(user_side, "xterm", "0").colour);  // any value counts ...
  EXPECT_TRUE(options_on(user_side, "xterm", "").colour);    // ... except the empty one
  EXPECT_FALSE(options_on(user_side, "dumb", nullptr).colour);
  EXPECT_FALSE(options_on(user_side, "dumb", nullptr).progress);
  for (const char* rank : {"0", "1"}) {  // as torchrun says it
    ::setenv("RANK", rank, 1);
    EXPECT_EQ(options_on(user_side, "xterm", nullptr).progress, *rank == '0');
  }
  ::unsetenv("RANK");
  ::close(user_side);
  ::close(terminal);
}

}  // namespace
}  // namespace ridge::apps
