// SPDX-License-Identifier: Apache-2.0
// Makes the options of a session and the records of its phases.
#include "serve/phase.h"

#include <algorithm>
#include <map>
#include <string>

#include "record/run_record.h"
#include "serve/session_choice.h"

namespace ridge::serve {
namespace {

// Finds the data type of most MACs. A GEMM that rounds activations counts as the rounded type.
std::string multiplied_in(std::span<const cost::ProgramGraph> graphs, const std::string& dtype) {
  std::map<std::string, int64_t> macs;
  for (const cost::ProgramGraph& each : graphs)
    for (size_t i = 0; i < each.graph().nodes.size(); ++i) {
      std::optional<DType> rounded = cost::rounded_to(each.graph().nodes[i]);
      macs[rounded ? std::string(name(*rounded)) : dtype] +=
          each.repeat * each.costed->costs[i].work.macs;
    }
  auto most = std::max_element(macs.begin(), macs.end(),
                               [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == macs.end() ? dtype : most->first;
}

}  // namespace

SessionOptions session_options(const PhaseSetup& e, int64_t capacity) {
  SessionOptions options;
  options.slots = e.batch;
  options.capacity = capacity;
  options.chunk = e.chunk;
  options.selection = e.selection;
  options.cache_dtype = e.cache_dtype;
  options.pages = e.pages;
  options.rank = e.rank;
  return options;
}

record::RunRecord begin_phase(const PhaseSetup& e,
                              const char* task,
                              const models::ModelConfig& config) {
  record::RunRecord record;
  record.setting = e.setting;
  record.setting.task = task;
  record.setting.batch_size = e.batch;
  record.setting.sequence = e.length;
  record.architecture = record::architecture(config);
  record.parameters = config.parameters();
  const DType activations = e.selection.activations(), cache = e.cache_dtype.value_or(activations);
  record.cache_bytes =
      e.batch * models::seen_bytes(config, e.length, cache, e.selection.tensor_ranks());
  if (cache != activations) record.setting.cache_dtype = cache_dtype_name(cache);
  return record;
}

std::vector<record::PredictedGraph> count_phase(std::span<const cost::ProgramGraph> graphs,
                                                const cost::Ceilings* ceilings,
                                                record::RunRecord& record) {
  record.setting.dtype = multiplied_in(graphs, record.setting.dtype);
  for (const cost::ProgramGraph& each : graphs) {
    const cost::TypedAmounts amounts = cost::typed_amounts(*each.costed);
    record.weight_bytes = std::max(record.weight_bytes, amounts.all_weight_bytes());
    record.amounts += cost::times(each.repeat, amounts);
  }
  return record::count_graphs(graphs, ceilings, record);
}

}  // namespace ridge::serve
