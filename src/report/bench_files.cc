// SPDX-License-Identifier: Apache-2.0
// Builds bench.json and its page.
#include "report/bench_files.h"

#include <string>
#include <utility>

#include "report/bench_table.h"
#include "report/json_text.h"
#include "report/model_bench.h"
#include "report/report_page.h"

namespace ridge::report {

namespace {

// `kind` is "op" or "model"; `result` is what the command prints with --json.
std::vector<OutputFile> files_of(const record::LabRecord& about,
                                 const std::string& kind,
                                 Json result) {
  Json json = heading(about);
  json["version"] = 1;
  if (about.ceilings) json["roofs"] = roofs_json(*about.ceilings);
  json["kind"] = kind;
  json["result"] = std::move(result);
  std::vector<OutputFile> files = {{"bench.json", json_text(json)}};
  files.push_back(page_file(files));
  return files;
}

}  // namespace

std::vector<OutputFile> bench_files(const record::LabRecord& about,
                                    const record::BenchRecord& bench) {
  return files_of(about, bench.kind, bench_json(bench));
}

std::vector<OutputFile> bench_files(const record::LabRecord& about,
                                    const record::ModelBenchRecord& bench) {
  return files_of(about, "model", model_bench_json(bench));
}

}  // namespace ridge::report
