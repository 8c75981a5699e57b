// SPDX-License-Identifier: Apache-2.0
// Builds bench.json and its page.
#include "report/bench_files.h"

#include "report/report_page.h"

namespace ridge::report {

std::vector<OutputFile> bench_files(const record::LabRecord& about,
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

}  // namespace ridge::report
