// SPDX-License-Identifier: Apache-2.0
// Declares the options, and starts or joins the processes. Not a subcommand.
#include "apps/rank_options.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "backends/cuda/cuda_backend.h"
#include "base/error.h"
#include "base/printable.h"
#include "files/interrupt.h"
#include "runtime/rank_launcher.h"

namespace ridge::apps {
namespace {

constexpr int64_t kMostRanks = 4096;
constexpr double kMostTimeoutS = 1e6;

const char* variable(const char* name) { return std::getenv(name); }

// The GPUs that ranks use: the visible ones, as --gpus chooses among them.
std::vector<std::string> chosen_gpus(const RankOptions& o, int count) {
  const std::vector<std::string> visible = runtime::visible_gpus(variable, count);
  return o.gpus.empty() ? visible : runtime::choose_gpus(o.gpus, visible);
}

// Ends as the ranks do.
[[noreturn]] void run_ranks(int64_t ranks, const RankOptions& o, bool on_gpu) {
  const int code = start_ranks(ranks, o, on_gpu);
  if (code > 128) files::end_by_interrupt(code - 128);
  std::exit(code);
}

// Each process sees its own GPU as the first one, and the others behind it. CUDA reads the variable
// when it is first asked anything, so that it cannot say here how many there are.
void put_own_gpu_first(const RankOptions& o, const runtime::RankPlace& place) {
  constexpr int kMostGpus = 1024;
  const std::vector<std::string> gpus =
      chosen_gpus(o, o.gpus.empty() ? place.local_ranks : kMostGpus);
  // A launcher that gives each process one GPU has chosen it already.
  if (gpus.size() <= 1 && o.gpus.empty()) return;
  const auto own = static_cast<size_t>(place.local_rank);
  if (own >= gpus.size()) {
    if (o.gpus.empty()) return;
    throw usage_error("[gpus] expected a GPU for each of the {} ranks of this host, got {}: {}",
                      place.local_ranks, gpus.size(), printable(o.gpus));
  }
  runtime::put_gpu_first(gpus, own);
  if (o.gpus.empty()) return;
  if (const int found = backends::cuda::gpu_count(); static_cast<size_t>(found) < gpus.size())
    throw usage_error("[gpus] expected GPUs that nvidia-smi lists, got {}, where {} of {} exist",
                      printable(o.gpus), found, gpus.size());
}

// The first rank prints for all. Errors of any rank still reach the user.
void print_only_errors() {
  std::fflush(stdout);
  const int nowhere = ::open("/dev/null", O_WRONLY);
  if (nowhere < 0) return;
  ::dup2(nowhere, STDOUT_FILENO);
  ::close(nowhere);
}

constexpr const char* kStarts =
    "; if no launcher started them, Ridge does: on CPUs by mpirun, on GPUs one for each GPU "
    "(default: as many as mpirun, srun or torchrun started)";

void add_tensor_option(Command app, int64_t& ranks, const std::string& more) {
  app.add_option("--tensor-parallel", ranks,
                 "processes that share the model, each with some of its heads and some columns of "
                 "its MLPs" +
                     more);
}

void add_sequence_flag(Command app, bool& is_on) {
  app.add_flag(
      "--sequence-parallel", is_on,
      "ranks that share a model keep parts of the tokens between its cut products, so that "
      "norms are not repeated and activations take less memory");
}

void add_timeout_option(Command app, RankOptions& o) {
  app.add_option(
      "--collective-timeout", o.timeout_s,
      "seconds until a rank that does not take part in an exchange ends the run (default: 60, "
      "and 300 in the first step)");
}

void expect_ranks(const char* option, int64_t ranks) {
  if (ranks < 0 || ranks > kMostRanks)
    throw usage_error("[{}] expected 1 to {}, got {}", option, kMostRanks, ranks);
}

// The layout that the options ask for, of the ranks that a launcher started.
runtime::RankLayout layout_of(const RankOptions& o, const runtime::RankPlace& place) {
  expect_ranks("data-parallel", o.data_parallel);
  expect_ranks("tensor-parallel", o.tensor_parallel);
  expect_ranks("pipeline-parallel", o.pipeline_parallel);
  const bool is_open = o.data_parallel == 0 || o.tensor_parallel == 0;
  runtime::RankLayout layout{std::max<int64_t>(o.data_parallel, 1),
                             std::max<int64_t>(o.tensor_parallel, 1),
                             std::max<int64_t>(o.pipeline_parallel, 1)};
  if (is_open)
    (o.data_parallel == 0 ? layout.data : layout.tensor) =
        std::max<int64_t>(place.ranks / layout.ranks(), 1);
  if (place.launcher != runtime::Launcher::kNone && layout.ranks() != place.ranks)
    throw usage_error("[{}] expected {}, the number of processes that {} started, got {}",
                      o.pipeline_parallel > 1 ? "pipeline-parallel"
                      : o.tensor_parallel > 1 ? "tensor-parallel"
                                              : "data-parallel",
                      place.ranks, name(place.launcher), layout.ranks());
  if (layout.data == 1 && o.zero != 0)
    throw usage_error("[zero] expected several ranks (--data-parallel), got 1");
  return layout;
}

}  // namespace

int run_as_rank(RankOptions& o, const std::string& folder, const std::function<int()>& body) {
  if (!o.joined) return body();
  o.joined->watch().keep_rings_in(folder);
  try {
    const int code = body();
    // It waits for the others: once one has ended, launchers end them.
    o.joined->watch().board().leave();
    o.joined.reset();
    return code;
  } catch (const Error& error) {
    o.joined->watch().fail(error.what(), static_cast<int>(error.code()));
  } catch (const std::exception& error) {
    o.joined->watch().fail(error.what(), static_cast<int>(ExitCode::kRuntime));
  }
}

void add_gpus_option(Command app, RankOptions& o) {
  app.add_option(
         "--gpus", o.gpus,
         "the GPUs that ranks use, one each, as 0,2: numbers of nvidia-smi, or of "
         "CUDA_VISIBLE_DEVICES where that is set (default: the first ones); change it where "
         "others use some, or `ridge machine --topology` shows faster links between some")
      .numbers();
}

int start_ranks(int64_t ranks, const RankOptions& o, bool on_gpu) {
  if (on_gpu)
    if (const size_t gpus = chosen_gpus(o, backends::cuda::gpu_count()).size();
        static_cast<size_t>(ranks) > gpus)
      throw usage_error("[ranks] expected at most {} ranks, one for each {}, got {}", gpus,
                        o.gpus.empty() ? "GPU of this machine" : "of --gpus " + printable(o.gpus),
                        ranks);
  if (const int64_t most = runtime::most_cpu_ranks(); !on_gpu && ranks > most)
    throw usage_error("[ranks] expected at most {}, {} for each core that Ridge may use, got {}",
                      most, runtime::kMostRanksOfACore, ranks);
  return on_gpu ? runtime::run_ranks(ranks) : runtime::run_mpirun(ranks);
}

void add_rank_options(Command app, RankOptions& o) {
  app = app.under("Ranks");
  o.data_parallel = 0;
  app.add_option(
      "--data-parallel", o.data_parallel,
      std::string("processes that train together, each on sequences of its own (--batch-size is of "
                  "each)") +
          kStarts);
  add_tensor_option(app, o.tensor_parallel,
                    " (default: 1); with --data-parallel each copy of the model has so many");
  add_sequence_flag(app, o.sequence_parallel);
  add_pipeline_options(app, o);
  app.add_option("--zero", o.zero,
                 "what ranks share out instead of copying: 1 moments and master weights, 2 sums of "
                 "gradients too, 3 parameters too, gathered for each layer; 0 nothing");
  add_gpus_option(app, o);
  add_timeout_option(app, o);
}

void add_tensor_options(Command app, RankOptions& o) {
  app = app.under("Ranks");
  o.tensor_parallel = 0;
  add_tensor_option(app, o.tensor_parallel, kStarts);
  add_gpus_option(app, o);
  add_timeout_option(app, o);
}

void add_model_rank_options(Command app, RankOptions& o) {
  add_tensor_options(app, o);
  app.under("Ranks").add_option(
      "--pipeline-parallel", o.pipeline_parallel,
      "stages that have some of the layers each, with their weights and KV cache, for "
      "models that are too large for one device: a token passes through all of them; with "
      "--tensor-parallel, so many processes share each stage (default: 1)");
}

void add_pipeline_options(Command app, RankOptions& o) {
  app.add_option("--pipeline-parallel", o.pipeline_parallel,
                 "processes that have some of the layers each and pass micro-batches on "
                 "(--micro-batches: more of them than stages keep all at work)");
  app.add_option(
      "--pipeline-schedule", o.pipeline_schedule,
      "1f1b; interleaved: several parts of the model on each stage, which waits for "
      "shorter ones; zero-bubble: gradients of weights fill the waiting, for more memory");
  app.add_option("--pipeline-chunks", o.pipeline_chunks,
                 "parts of the model on each stage, if interleaved (default: 2)");
}

void join_ranks(RankOptions& o, backends::MachineOptions& machine) {
  runtime::WatchOptions watch{.print = runtime::print_error};
  if (o.timeout_s) watch.first_step_s = watch.timeout_s = *o.timeout_s;
  if (!(watch.timeout_s > 0 && watch.timeout_s <= kMostTimeoutS))
    throw usage_error("[collective-timeout] expected seconds above 0, at most {:g}, got {:g}",
                      kMostTimeoutS, watch.timeout_s);
  const runtime::RankPlace place = runtime::find_rank(variable);
  const runtime::RankLayout layout = layout_of(o, place);
  const int64_t wanted = layout.ranks();
  if (wanted == 1 && o.gpus.empty()) return;
  if (!o.gpus.empty() && machine.device == "cpu")
    throw usage_error("[gpus] expected ranks on GPUs, got --device cpu");
  if (place.launcher != runtime::Launcher::kNone || wanted == 1) put_own_gpu_first(o, place);
  if (wanted == 1) return;
  const bool on_gpu = backends::is_gpu(machine);
  if (!on_gpu && place.launcher == runtime::Launcher::kTorchrun)
    throw usage_error(
        "[ranks] torchrun starts ranks on GPUs; expected a GPU for each of its {} processes on "
        "this host, or mpirun for ranks on CPUs",
        place.local_ranks);
  if (place.launcher == runtime::Launcher::kNone) run_ranks(wanted, o, on_gpu);
  o.joined = runtime::join_ranks(place, layout, watch, machine);
  if (!o.is_first()) print_only_errors();
}

}  // namespace ridge::apps
