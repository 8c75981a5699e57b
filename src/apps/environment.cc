// SPDX-License-Identifier: Apache-2.0
// Reads environment variables; files/cache_folder reads those of the cache. Not a subcommand.
#include "apps/environment.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace ridge::apps {
namespace {

constexpr int kSmallestTerminal = 20;  // a smaller reported width is taken as wrong

// About 0.1 ms. OpenMP's default is several ms, as long as another program keeps a core. A thread
// that spins for so long leaves the thread that it waits for without a core: next to one busy
// program a training step on two cores took 2 to 14 times as long, with this limit 2.2 times.
constexpr const char* kSpins = "3000";

}  // namespace

void limit_spinning(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  if (::setenv("GOMP_SPINCOUNT", kSpins, 1) == 0) ::execv("/proc/self/exe", argv);
  // Without /proc the program goes on as it is.
}

report::TerminalOptions terminal_options_from_environment() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  bool capable = term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
  report::TerminalOptions options;
  // https://no-color.org: set and not empty means no colour, whatever the value.
  options.colour = capable && (no_color == nullptr || *no_color == '\0') && ::isatty(STDOUT_FILENO);
  options.fit = ::isatty(STDOUT_FILENO);
  // torchrun and Ridge's own launcher leave the terminal to all ranks; the first one draws on it.
  const char* rank = std::getenv("RANK");
  options.progress =
      capable && ::isatty(STDERR_FILENO) && (rank == nullptr || std::string_view(rank) == "0");
  winsize size{};
  for (int stream : {STDERR_FILENO, STDOUT_FILENO}) {
    if (::ioctl(stream, TIOCGWINSZ, &size) != 0 || size.ws_col < kSmallestTerminal) continue;
    options.columns = size.ws_col;
    break;
  }
  return options;
}

}  // namespace ridge::apps
