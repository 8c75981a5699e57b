// SPDX-License-Identifier: Apache-2.0
// Runs the built program as a child process and captures its output.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "files/scratch.h"

namespace ridge::apps {

struct Output {
  int code = -1;  // exit code; 128 + signal if a signal ended it
  std::string out;
  std::string err;
  double cpu_seconds = 0;
  int64_t peak_bytes = 0;  // resident
};

struct RunLimits {
  int64_t file_bytes = -1;      // maximum size of a file, like a full disk
  const char* out = nullptr;    // file for stdout
  bool ignores_hangup = false;  // as under nohup
  int64_t address_bytes = -1;   // maximum address space, like a machine without memory
  int64_t cpu_seconds = -1;     // SIGXCPU ends the program after this time
  std::string cache = {};       // folder of the program's caches; empty: the user's
  std::vector<std::pair<std::string, std::string>> environment =
      {};                                  // variables of the program alone
  std::vector<std::string> launcher = {};  // words before the program's: mpirun and its options
};

// Waits for a child to end; 128 + signal if a signal ended it.
inline int exit_code(pid_t child, rusage* usage = nullptr) {
  int status = 0;
  ::wait4(child, &status, 0, usage);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

class ProgramTest : public ::testing::Test {
 protected:
  // Runs in the scratch folder with the arguments unchanged and an empty stdin; there is no shell.
  Output run(std::vector<std::string> arguments, const RunLimits& limits = {}) const {
    return finish(start(std::move(arguments), limits));
  }

  // The two halves of run: the child's process id, and its output after it has ended.
  pid_t start(std::vector<std::string> arguments, const RunLimits& limits = {}) const {
    int out = open_in_folder("out.txt"), err = open_in_folder("err.txt");
    arguments.insert(arguments.begin(), ridge_program());
    arguments.insert(arguments.begin(), limits.launcher.begin(), limits.launcher.end());
    pid_t child = ::fork();
    // Tests send the child signals, and process -1 is every process.
    if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (child == 0) become(arguments, limits, out, err);
    ::close(out);
    ::close(err);
    return child;
  }
  Output finish(pid_t child) const {
    rusage usage{};
    const int code = exit_code(child, &usage);
    auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return {code, files::contents(streams_ / "out.txt"), files::contents(streams_ / "err.txt"),
            seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_maxrss * 1024};
  }
  // Waits until a running child has written `part` to stdout or stderr.
  void await(const std::string& part) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (std::chrono::steady_clock::now() < end) {
      if (has_written(part)) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ADD_FAILURE() << "the program did not write " << part;
  }
  // Waits until the child has written `part`, or has ended without: false.
  bool await_or_end(const std::string& part, pid_t child) const {
    for (siginfo_t ended{}; !has_written(part);) {
      ::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT);
      if (ended.si_pid == child) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  // Expects an error: the exit code, a message with `part` on stderr, and no new file in the
  // folder.
  void expect_refused(std::vector<std::string> arguments, int code, const std::string& part) const {
    size_t before = folder_.count();
    std::string line;
    for (const std::string& each : arguments) line += each + " ";
    Output output = run(std::move(arguments));
    EXPECT_EQ(output.code, code) << line << "\n" << output.err;
    EXPECT_NE(output.err.find(part), std::string::npos)
        << line << "\nexpected: " << part << "\nfound: " << output.err;
    EXPECT_EQ(folder_.count(), before) << line << "left something behind";
  }

  files::ScratchFolder folder_;

 private:
  bool has_written(const std::string& part) const {
    for (const char* stream : {"out.txt", "err.txt"})
      if (files::contents(streams_ / stream).find(part) != std::string::npos) return true;
    return false;
  }

  int open_in_folder(const char* name) const {
    return ::open((streams_ / name).c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  }

  static void limit(int resource, int64_t most) {
    if (most < 0) return;
    const rlimit both{static_cast<rlim_t>(most), static_cast<rlim_t>(most)};
    ::setrlimit(resource, &both);
  }

  // Runs in the child; never returns.
  void become(const std::vector<std::string>& arguments,
              const RunLimits& limits,
              int out,
              int err) const {
    if (limits.out != nullptr) out = ::open(limits.out, O_WRONLY);
    ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(err, STDERR_FILENO);
    // A shell that starts the tests in the background has them ignore Ctrl-C.
    for (const int each : {SIGINT, SIGQUIT}) std::signal(each, SIG_DFL);
    if (limits.file_bytes >= 0) std::signal(SIGXFSZ, SIG_IGN);
    limit(RLIMIT_FSIZE, limits.file_bytes);
    limit(RLIMIT_CPU, limits.cpu_seconds);
    if (limits.ignores_hangup) std::signal(SIGHUP, SIG_IGN);
    std::vector<char*> argv;
    for (const std::string& each : arguments) argv.push_back(const_cast<char*>(each.c_str()));
    argv.push_back(nullptr);
    // An mpirun that ends removes the folder in which another one beside it begins.
    ::setenv("TMPDIR", streams_.path().c_str(), 1);
    if (!limits.cache.empty()) ::setenv("XDG_CACHE_HOME", limits.cache.c_str(), 1);
    for (const auto& [name, value] : limits.environment) ::setenv(name.c_str(), value.c_str(), 1);
    limit(RLIMIT_AS, limits.address_bytes);
    if (::chdir(folder_.path().c_str()) == 0) ::execv(argv[0], argv.data());
    ::_exit(127);
  }

  files::ScratchFolder streams_;
};

// Options for the smallest training step, on one thread.
inline std::vector<std::string> tiny(std::vector<std::string> arguments) {
  for (const char* each :
       {"--preset", "tiny", "--device", "cpu", "--threads", "1", "--warmup", "1"})
    arguments.emplace_back(each);
  return arguments;
}

}  // namespace ridge::apps
