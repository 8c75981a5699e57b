// SPDX-License-Identifier: Apache-2.0
// Starts the ranks as processes of this program.
#include "runtime/rank_launcher.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/openmp_threads.h"
#include "files/interrupt.h"

namespace ridge::runtime {
namespace {

// The words of this process's command line.
std::vector<std::string> own_arguments() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(in, word, '\0');) words.push_back(word);
  return words;
}

// mpirun refuses root, because a mistake could then harm the system; a container has nobody else.
void permit_root() {
  if (::geteuid() != 0) return;
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (std::string& each : words) argv.push_back(each.data());
  argv.push_back(nullptr);
  return argv;
}

constexpr int kNotFound = 127;  // as a shell says it

// Becomes mpirun, which the terminal's Ctrl-C does not reach then. It ends when this program does.
[[noreturn]] void run_in_own_group(const std::vector<char*>& words, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // A program in the background that reads the terminal is stopped.
  if (::isatty(STDIN_FILENO) != 0) ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  ::execvp("mpirun", words.data());
  ::_exit(kNotFound);
}

// Sends a signal to the processes that another one has started.
void signal_children(pid_t parent, int signal) {
  std::error_code error;
  for (const auto& task :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/task", parent), error)) {
    std::ifstream in(task.path() / "children");
    for (pid_t child = 0; in >> child;) ::kill(child, signal);
  }
}

// One rank of this program, told its place as torchrun does. It ends when this process does.
pid_t start_rank(int64_t rank, int64_t ranks, int port) {
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) throw runtime_error("[ranks] cannot start a process: {}", std::strerror(errno));
  if (child > 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);
  const std::string number = std::to_string(rank), all = std::to_string(ranks),
                    at = std::to_string(port);
  for (const auto& [name, value] :
       {std::pair("RANK", &number), std::pair("LOCAL_RANK", &number), std::pair("WORLD_SIZE", &all),
        std::pair("LOCAL_WORLD_SIZE", &all), std::pair("MASTER_PORT", &at)})
    ::setenv(name, value->c_str(), 1);
  ::setenv("MASTER_ADDR", "127.0.0.1", 1);
  ::unsetenv("TORCHELASTIC_USE_AGENT_STORE");
  std::vector<std::string> words = own_arguments();
  ::execv("/proc/self/exe", pointers(words).data());
  ::_exit(static_cast<int>(ExitCode::kRuntime));
}

// The code with which a launcher ends where a rank ended with this one.
int failure(int code) { return code > 128 ? static_cast<int>(ExitCode::kRuntime) : code; }

// A rank ended after its step, as it was told to; the others may still save.
bool is_interrupt(int code) {
  return code == 128 + SIGINT || code == 128 + SIGTERM || code == 128 + SIGHUP;
}

// Waits for all; once one fails, the others get some seconds to say why they end, and are killed. A
// stopped one says nothing. A rank that a signal killed has failed, as under mpirun.
int wait_for_ranks(std::vector<pid_t> ranks) {
  constexpr int kPatience = 50;  // waits of 100 ms
  int code = 0, waited = 0;
  while (!ranks.empty()) {
    int status = 0;
    const pid_t ended =
        ::waitpid(-1, &status, code == 0 || is_interrupt(code) ? 0 : WNOHANG | WUNTRACED);
    if (ended > 0 && WIFSTOPPED(status)) {
      ::kill(ended, SIGKILL);
    } else if (ended > 0) {
      std::erase(ranks, ended);
      const int own = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      if (code == 0) code = own;
    } else if (ended < 0 && errno != EINTR) {
      break;
    } else if (code != 0 && !is_interrupt(code)) {
      ::usleep(100'000);
      if (++waited == kPatience)
        for (const pid_t each : ranks) ::kill(each, SIGKILL);
    }
  }
  return is_interrupt(code) ? code : failure(code);
}

}  // namespace

int64_t most_cpu_ranks() { return kMostRanksOfACore * std::ssize(allowed_processors()); }

int run_mpirun(int64_t ranks) {
  // Each rank keeps itself on its own processors.
  std::vector<std::string> words = {"mpirun",    "-n",   std::to_string(ranks),
                                    "--bind-to", "none", "--quiet"};
  if (const int64_t cores = std::ssize(allowed_processors()); ranks > cores) {
    fmt::print(stderr, "warning: {} ranks will share {} cores\n", ranks, cores);
    words.insert(words.end(), {"--oversubscribe", "--mca", "mpi_yield_when_idle", "1"});
  }
  words.push_back(std::filesystem::read_symlink("/proc/self/exe").string());
  const std::vector<std::string> own = own_arguments();
  words.insert(words.end(), own.begin() + 1, own.end());
  permit_root();
  std::fflush(nullptr);
  const pid_t parent = ::getpid(), mpirun = ::fork();
  if (mpirun < 0) throw runtime_error("[ranks] cannot start a process: {}", std::strerror(errno));
  if (mpirun == 0) run_in_own_group(pointers(words), parent);
  const files::InterruptRequest request("", files::InterruptRequest::Signals::kAll);
  files::hear_signals([mpirun](int signal, bool) { signal_children(mpirun, signal); });
  int status = 0;
  while (::waitpid(mpirun, &status, 0) < 0 && errno == EINTR) {
  }
  files::hear_signals({});
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  if (code == kNotFound) throw runtime_error("[ranks] cannot start mpirun; install openmpi-bin");
  // Ranks that end by the signal have a code, as the interrupted work of one process has; a server
  // that has answered what was open has none.
  if (request.is_set() && code != 0) return 128 + request.signal();
  return failure(code);
}

int free_port() {
  const int handle = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  const bool found =
      handle >= 0 && ::bind(handle, any, length) == 0 && ::getsockname(handle, any, &length) == 0;
  const int error = errno;
  if (handle >= 0) ::close(handle);
  if (!found) throw runtime_error("[ranks] cannot find a free port: {}", std::strerror(error));
  return ntohs(address.sin_port);
}

int run_ranks(int64_t ranks) {
  std::fflush(nullptr);
  const int port = free_port();
  std::vector<pid_t> started;
  for (int64_t rank = 0; rank < ranks; ++rank) started.push_back(start_rank(rank, ranks, port));
  ::signal(SIGINT, SIG_IGN);
  const files::InterruptRequest request("", files::InterruptRequest::Signals::kAll);
  files::hear_signals([started](int signal, bool) {
    for (const pid_t each : started) ::kill(each, signal);
  });
  const int code = wait_for_ranks(std::move(started));
  files::hear_signals({});
  return code;
}

}  // namespace ridge::runtime
