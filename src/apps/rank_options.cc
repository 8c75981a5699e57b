// SPDX-License-Identifier: Apache-2.0
// Declares the options, and starts or joins the processes. Not a subcommand.
#include "apps/rank_options.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/ranges.h>
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
#include "base/split.h"
#include "files/interrupt.h"

namespace ridge::apps {
namespace {

constexpr int64_t kMostRanks = 4096;

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

[[noreturn]] void start_again_under_mpirun(int64_t ranks) {
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

// A port of this host that nobody uses now.
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

// Ctrl-C reaches the ranks by themselves, and they end after the step.
[[noreturn]] void start_ranks_on_gpus(int64_t ranks) {
  std::fflush(nullptr);
  const int port = free_port();
  std::vector<pid_t> started;
  for (int64_t rank = 0; rank < ranks; ++rank) started.push_back(start_rank(rank, ranks, port));
  ::signal(SIGINT, SIG_IGN);
  const int code = wait_for_ranks(std::move(started));
  if (code > 128) files::end_by_interrupt(code - 128);
  std::exit(code);
}

// Each process sees its own GPU as the first one, and the others behind it.
void put_own_gpu_first(const runtime::RankPlace& place) {
  const char* given = std::getenv("CUDA_VISIBLE_DEVICES");
  std::vector<std::string> gpus;
  if (given != nullptr) gpus = split(given);
  for (int i = 0; given == nullptr && i < place.local_ranks; ++i) gpus.push_back(std::to_string(i));
  // A launcher that gives each process one GPU has chosen it already.
  if (static_cast<size_t>(place.local_rank) >= gpus.size() || gpus.size() == 1) return;
  std::swap(gpus[0], gpus[static_cast<size_t>(place.local_rank)]);
  ::setenv("CUDA_VISIBLE_DEVICES", fmt::format("{}", fmt::join(gpus, ",")).c_str(), 1);
}

// The first rank prints for all. Errors of any rank still reach the user.
void print_only_errors() {
  std::fflush(stdout);
  const int nowhere = ::open("/dev/null", O_WRONLY);
  if (nowhere < 0) return;
  ::dup2(nowhere, STDOUT_FILENO);
  ::close(nowhere);
}

}  // namespace

void add_rank_options(Command app, RankOptions& o) {
  app = app.under("Ranks");
  app.add_option("--data-parallel", o.data_parallel,
                 "processes that train together, each on sequences of its own (--batch-size is of "
                 "each); without mpirun or srun, Ridge starts them by mpirun (default: as many as "
                 "mpirun or srun started)");
  app.add_option("--collective-timeout", o.timeout_s,
                 "seconds until a rank that does not take part in an exchange ends the run");
}

void join_ranks(RankOptions& o, backends::MachineOptions& machine) {
  if (o.data_parallel < 0 || o.data_parallel > kMostRanks)
    throw usage_error("[data-parallel] expected 1 to {}, got {}", kMostRanks, o.data_parallel);
  if (!(o.timeout_s > 0 && o.timeout_s <= 1e6))
    throw usage_error("[collective-timeout] expected seconds above 0, got {:g}", o.timeout_s);
  const runtime::RankPlace place = runtime::find_rank([](const char* v) { return std::getenv(v); });
  const int64_t wanted = o.data_parallel == 0 ? place.ranks : o.data_parallel;
  if (place.launcher != runtime::Launcher::kNone && wanted != place.ranks)
    throw usage_error(
        "[data-parallel] expected {}, the number of processes that {} started, got {}", place.ranks,
        name(place.launcher), wanted);
  if (wanted == 1) return;
  put_own_gpu_first(place);
  const bool on_gpu = backends::is_gpu(machine);
  if (!on_gpu && place.launcher == runtime::Launcher::kTorchrun)
    throw usage_error("[ranks] torchrun starts ranks on GPUs; expected mpirun for ranks on CPUs");
  if (place.launcher == runtime::Launcher::kNone)
    on_gpu ? start_ranks_on_gpus(wanted) : start_again_under_mpirun(wanted);
  o.joined = std::make_shared<runtime::Ranks>(place, o.timeout_s, on_gpu);
  if (!on_gpu && machine.threads == 0) machine.threads = o.joined->processors();
  machine.groups = &o.joined->groups();
  if (!o.is_first()) print_only_errors();
}

}  // namespace ridge::apps
