// SPDX-License-Identifier: Apache-2.0
// The rows that this room adds, list by list.
#include "courses/courses.h"

#include "bench/module_trial.h"
#include "courses/workshop_files.h"
#include "report/output_files.h"

namespace ridge::courses {

void add_to_program() {
  report::file_formats().push_back(
      {"workshop", "the JSON files of the Tiny LLaMA workshop's scripts instead", workshop_files});
  bench::unfused_bytes_names().push_back(
      {"notebook", "the lab notebook's bytes of an unfused MLP and of attention in seven passes"});
  const auto times = published_times();
  bench::published_times().assign(times.begin(), times.end());
}

}  // namespace ridge::courses
