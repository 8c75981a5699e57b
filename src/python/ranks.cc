// SPDX-License-Identifier: Apache-2.0
// Joins the ranks of a process once, and tells the others if the script ends by an exception.
#include "python/ranks.h"

#include <nanobind/stl/string.h>

#include <cstdlib>
#include <utility>

#include "backends/cuda/cuda_backend.h"
#include "base/error.h"
#include "runtime/rank_launcher.h"

namespace ridge::python {
namespace {

namespace nb = nanobind;

// A launcher's ranks join once a process, for MPI cannot begin again.
SharedRanks launched;
bool has_model = false;  // they have followed a model, or do

const char* variable(const char* name) { return std::getenv(name); }

// The others would wait for a rank whose script ended by an exception.
void leave_at_exit() {
  const nb::module_ sys = nb::module_::import_("sys");
  if (!nb::hasattr(sys, "last_value")) {
    const nb::gil_scoped_release release;  // leaving may wait for the others
    return launched.reset();
  }
  const auto error =
      nb::cast<std::string>(nb::module_::import_("builtins").attr("str")(sys.attr("last_value")));
  for (const char* stream : {"stdout", "stderr"}) sys.attr(stream).attr("flush")();
  launched->watch().fail(error, static_cast<int>(ExitCode::kRuntime));
}

void expect_startable(int64_t ranks, bool on_gpu) {
  const int64_t most = on_gpu ? backends::cuda::gpu_count() : runtime::most_cpu_ranks();
  if (ranks > most)
    throw usage_error("[tensor_parallel] expected at most {}, {}, got {}", most,
                      on_gpu ? "one for each GPU" : "16 for each core", ranks);
}

void expect_number(const char* name, int64_t ranks) {
  constexpr int64_t kMostRanks = 4096;
  if (ranks < 1 || ranks > kMostRanks)
    throw usage_error("[{}] expected 1 to {}, got {}", name, kMostRanks, ranks);
}

}  // namespace

RankKeywords::RankKeywords(Keywords& keywords) {
  keywords.take("data_parallel", layout.data), keywords.take("tensor_parallel", layout.tensor);
  keywords.take("pipeline_parallel", layout.pipeline);
  keywords.take("zero", sharing.zero);
  keywords.take("sequence_parallel", sharing.sequence_parallel);
  keywords.take("pipeline_schedule", sharing.pipeline_schedule);
  keywords.take("pipeline_chunks", sharing.pipeline_chunks);
  expect_number("data_parallel", layout.data), expect_number("tensor_parallel", layout.tensor);
  expect_number("pipeline_parallel", layout.pipeline);
  if (layout.data == 1 && sharing.zero != 0)
    throw usage_error("[zero] expected several ranks (data_parallel=), got 1");
  // They throw before anybody waits for a rank.
  train::layout_switches(layout, sharing), train::pipeline_of(layout, sharing);
}

SharedRanks join_launched(const runtime::RankLayout& layout, backends::MachineOptions& machine) {
  if (layout.ranks() == 1) return nullptr;
  const runtime::RankPlace place = runtime::find_rank(variable);
  if (place.launcher == runtime::Launcher::kNone)
    throw usage_error(
        "[ranks] expected {0} processes that run this script, got one: start it by "
        "`mpirun -n {0} python SCRIPT`, or on GPUs by `torchrun --nproc-per-node {0} SCRIPT`",
        layout.ranks());
  if (layout.ranks() != place.ranks)
    throw usage_error(
        "[ranks] expected a layout of {}, the number of processes that {} started, got {}",
        place.ranks, name(place.launcher), layout.ranks());
  if (launched != nullptr && launched->layout() != layout)
    throw usage_error(
        "[ranks] expected the layout that this process has joined, {} x {} x {}, got {} x {} x {}",
        launched->layout().data, launched->layout().tensor, launched->layout().pipeline,
        layout.data, layout.tensor, layout.pipeline);
  if (launched != nullptr) {
    runtime::tell(*launched, machine);
    return launched;
  }
  if (std::vector<std::string> gpus = runtime::visible_gpus(variable, place.local_ranks);
      gpus.size() > 1 && static_cast<size_t>(place.local_rank) < gpus.size())
    runtime::put_gpu_first(std::move(gpus), static_cast<size_t>(place.local_rank));
  {
    const nb::gil_scoped_release release;
    launched = runtime::join_ranks(place, layout, {.print = runtime::print_error}, machine);
  }
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&leave_at_exit));
  return launched;
}

SharedRanks join_for_model(int64_t ranks,
                           const std::string& path,
                           const nb::dict& given,
                           backends::MachineOptions& machine) {
  expect_number("tensor_parallel", ranks);
  const runtime::RankLayout layout{.tensor = ranks};
  if (ranks == 1) return nullptr;
  if (const runtime::Launcher launcher = runtime::find_rank(variable).launcher;
      launcher != runtime::Launcher::kNone) {
    if (std::exchange(has_model, true))
      throw usage_error(
          "[tensor_parallel] expected one model in a script that {} started, for the other "
          "processes end with it, got a second one",
          name(launcher));
    return join_launched(layout, machine);
  }
  expect_startable(ranks, backends::is_gpu(machine));
  const int port = runtime::free_port(), count = static_cast<int>(ranks);
  nb::module_::import_("ridge.followers").attr("start")(ranks, port, path, given);
  const nb::gil_scoped_release release;
  return runtime::join_ranks({runtime::Launcher::kTorchrun, 0, count, 0, count, "127.0.0.1", port},
                             layout, {.print = runtime::print_error}, machine);
}

void end_follower() {
  PyErr_SetObject(PyExc_SystemExit, nb::int_(0).ptr());
  throw nb::python_error();
}

}  // namespace ridge::python
