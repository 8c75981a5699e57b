// SPDX-License-Identifier: Apache-2.0
// The rows that this room adds, list by list.
#include "courses/courses.h"

#include "bench/module_trial.h"
#include "courses/ladder_gemm.h"
#include "courses/workshop_files.h"
#include "ops/registry.h"
#include "report/output_files.h"
#ifdef RIDGE_HAS_CUDA
#include "backends/cuda/kernel_table.h"
#include "courses/cuda/ladder_gemm.h"
#endif

namespace ridge::courses {

void add_to_program() {
  ops::add_op(ladder_gemm_op());
#ifdef RIDGE_HAS_CUDA
  backends::cuda::added_kernels().push_back(ladder_gemm_kernel);
#endif
  report::file_formats().push_back(
      {"workshop",
       "also the files and folders of the Tiny LLaMA workshop's scripts, with a trace for TensorBoard",
       workshop_files});
  bench::unfused_bytes_names().push_back(
      {"notebook",
       "the lab notebook's bytes: each operation reads and writes once, attention passes over its scores seven times"});
  const auto times = published_times();
  bench::published_times().assign(times.begin(), times.end());
}

}  // namespace ridge::courses
