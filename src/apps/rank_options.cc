// SPDX-License-Identifier: Apache-2.0
// Declares the options, and starts or joins the processes. Not a subcommand.
#include "apps/rank_options.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/openmp_threads.h"

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
  std::vector<char*> argv;
  for (std::string& each : words) argv.push_back(each.data());
  argv.push_back(nullptr);
  permit_root();
  ::execvp(argv[0], argv.data());
  throw runtime_error("[ranks] cannot start mpirun: {}; install openmpi-bin", std::strerror(errno));
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
  if (backends::is_gpu(machine))
    throw usage_error("[data-parallel] expected --device cpu: ranks run on CPUs only");
  if (place.launcher == runtime::Launcher::kTorchrun)
    throw usage_error("[ranks] torchrun starts ranks on GPUs; expected mpirun for ranks on CPUs");
  if (place.launcher == runtime::Launcher::kNone) start_again_under_mpirun(wanted);
  o.joined = std::make_shared<runtime::Ranks>(place, backends::MpiOptions{{}, o.timeout_s});
  if (machine.threads == 0) machine.threads = o.joined->processors();
  machine.groups = &o.joined->groups();
  if (!o.is_first()) print_only_errors();
}

}  // namespace ridge::apps
