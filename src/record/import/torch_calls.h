// SPDX-License-Identifier: Apache-2.0
// The calls of a trace of torch.profiler, each counted once however often it is repeated.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "record/import/foreign_trace.h"
#include "record/import/operation_counts.h"

namespace ridge::record {

// Gives a call what its operation counts.
void note_counts(const Counts& counts, NameTable& names, RecordedCounts& call);

class TorchCalls {
 public:
  // Adds calls, and the first batch of token ids, to the trace, which must outlive it.
  explicit TorchCalls(ForeignTrace& trace) : trace_(trace) {}

  // The call of an operation, by its name and the JSON of its arguments; an index into the trace's
  // calls, or -1 if nothing is recorded. Throws a bad-file Error for extents that no tensor has.
  int32_t call(uint32_t name, const std::string& arguments);

 private:
  int32_t add(std::string_view name, const nlohmann::json& args);
  void note_batch(std::string_view name, const RecordedCall& call);
  void note_ids(const Operand& ids);

  ForeignTrace& trace_;
  std::unordered_map<std::string, int32_t> calls_;
  std::string key_;        // used again
  int64_t most_rows_ = 0;  // the largest table that embeddings look up has so many
};

}  // namespace ridge::record
