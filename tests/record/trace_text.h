// SPDX-License-Identifier: Apache-2.0
// Writes small traces of torch.profiler for tests, and imports them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "files/block_reader.h"
#include "record/import/imported_run.h"
#include "record/import/trace_file.h"

namespace ridge::record {

class TraceText {
 public:
  using Json = nlohmann::json;

  // Times in microseconds. `args` may be empty.
  TraceText& event(const char* category,
                   const std::string& name,
                   double begin,
                   double length,
                   Json args = Json::object(),
                   int thread = 1) {
    events_.push_back({{"ph", "X"},
                       {"cat", category},
                       {"name", name},
                       {"pid", 7},
                       {"tid", thread},
                       {"ts", begin},
                       {"dur", length},
                       {"args", std::move(args)}});
    return *this;
  }
  // The arguments of a call on f32 tensors of these extents.
  static Json call(const std::vector<std::vector<int64_t>>& tensors, Json more = Json::object()) {
    more["Input Dims"] = tensors;
    more["Input type"] = std::vector<std::string>(tensors.size(), "float");
    return more;
  }
  std::string str() const { return Json{{"traceEvents", events_}}.dump(); }

 private:
  Json events_ = Json::array();
};

struct Imported {
  ForeignTrace trace;
  ImportedSteps steps;
  RunRecord run;
};

inline Imported import_trace(files::BlockReader reader) {
  Imported imported;
  imported.trace = read_torch_trace(reader);
  imported.steps = imported_steps(imported.trace);
  imported.run = imported_run(imported.trace, imported.steps, nullptr);
  return imported;
}
inline Imported import_text(const std::string& text) {
  return import_trace(files::BlockReader(text, "trace.json"));
}

}  // namespace ridge::record
