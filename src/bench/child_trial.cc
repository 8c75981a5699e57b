// SPDX-License-Identifier: Apache-2.0
// Starts the child and reads what it prints.
#include "bench/child_trial.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"

namespace ridge::bench {
namespace {

struct ChildOutput {
  int code = -1;
  std::string text;  // on stdout
};

ChildOutput run_child(std::vector<std::string> arguments) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw runtime_error("[attention] cannot make a pipe");
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> argv;
  for (std::string& each : arguments) argv.push_back(each.data());
  argv.push_back(nullptr);
  pid_t child = -1;
  const int fault =
      ::posix_spawn(&child, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  ChildOutput output;
  std::array<char, 4096> part;
  for (ssize_t size; fault == 0 && (size = ::read(ends[0], part.data(), part.size())) > 0;)
    output.text.append(part.data(), static_cast<size_t>(size));
  ::close(ends[0]);
  if (fault != 0) throw runtime_error("[attention] cannot start a child of this program");
  int status = 0;
  ::waitpid(child, &status, 0);
  output.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return output;
}

}  // namespace

std::string failure_of_child(std::vector<std::string> arguments, int64_t limit_bytes) {
  arguments.insert(arguments.begin(), {"ridge", "bench", "op"});
  arguments.insert(arguments.end(),
                   {"--memory-limit", std::to_string(limit_bytes), "--seconds", "0.001", "--json"});
  const ChildOutput child = run_child(std::move(arguments));
  const nlohmann::json json = nlohmann::json::parse(child.text, nullptr, false);
  if (!json.is_discarded() && json.contains("cases") && !json["cases"].empty()) {
    const std::string refused = json["cases"].back().value("refused", "");
    if (!refused.empty()) return "fails to allocate: " + refused;
    return "took more memory than was planned to be free, and ran";
  }
  return fmt::format("fails to allocate: a child with {} ended with exit code {}",
                     format_bytes(limit_bytes), child.code);
}

}  // namespace ridge::bench
