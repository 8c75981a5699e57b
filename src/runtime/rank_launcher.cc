// SPDX-License-Identifier: Apache-2.0
// Starts the ranks as processes of this program.
#include "runtime/rank_launcher.h"

#include <arpa/inet.h>
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

// One rank of this program, told its place as torchrun does. It ends when this process does.
pid_t start_rank(int64_t rank, int64_t ranks, int port) {
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) throw runtime_error("[ranks] cannot start a process: {}", std::strerror(errno));
  if (child > 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
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

// Waits for all; once one fails, the others get some seconds to say why they end, and are killed.
int wait_for_ranks(std::vector<pid_t> ranks) {
  constexpr int kPatience = 50;  // waits of 100 ms
  int code = 0, waited = 0;
  while (!ranks.empty()) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, code == 0 ? 0 : WNOHANG);
    if (ended > 0) {
      std::erase(ranks, ended);
      const int own = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      if (code == 0) code = own;
    } else if (ended < 0 && errno != EINTR) {
      break;
    } else if (code != 0) {
      ::usleep(100'000);
      if (++waited == kPatience)
        for (const pid_t each : ranks) ::kill(each, SIGKILL);
    }
  }
  return code;
}

}  // namespace

void become_mpirun(int64_t ranks) {
  // Each rank keeps itself on its own processors.
  std::vector<std::string> words = {"mpirun", "-n", std::to_string(ranks), "--bind-to", "none"};
  if (const int64_t cores = std::ssize(allowed_processors()); ranks > cores) {
    fmt::print(stderr, "warning: {} ranks will share {} cores\n", ranks, cores);
    words.insert(words.end(), {"--oversubscribe", "--mca", "mpi_yield_when_idle", "1"});
  }
  words.push_back(std::filesystem::read_symlink("/proc/self/exe").string());
  const std::vector<std::string> own = own_arguments();
  words.insert(words.end(), own.begin() + 1, own.end());
  permit_root();
  ::execvp("mpirun", pointers(words).data());
  throw runtime_error("[ranks] cannot start mpirun: {}; install openmpi-bin", std::strerror(errno));
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
  return wait_for_ranks(std::move(started));
}

}  // namespace ridge::runtime
