// SPDX-License-Identifier: Apache-2.0
// Tells what a trace has evidence for.
#include "record/import/imported_setting.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <span>

namespace ridge::record {
namespace {

std::string dtype_option(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "fp16";
    default:
      return "fp32";
  }
}

// The rows of an output, "bf16[2,128,64]" -> 256.
int64_t rows_of(std::string_view output) {
  const RecordedCall call = call_of_text(output);
  const Operand* tensor = call.tensor(0);
  if (tensor == nullptr || tensor->extents().empty()) return 0;
  return count_product(std::span(tensor->extents()).first(tensor->extents().size() - 1));
}

// Whether token ids are what the products are about, and not one of several inputs, such as the
// text that tells what an image shows.
bool are_of_tokens(const ForeignTrace& trace, const ImportedSteps& steps) {
  constexpr int64_t kPart = 8;  // an eighth
  const int64_t tokens = count_product({trace.batch_size, trace.sequence});
  std::map<int32_t, int64_t> calls;  // how often
  for (const ImportedOperation& each : steps.operations)
    if (each.call >= 0) ++calls[each.call];
  double all = 0, of_tokens = 0;
  for (const auto& [index, count] : calls) {
    const RecordedCounts& call = trace.calls[static_cast<size_t>(index)];
    const double macs = static_cast<double>(call.model_macs) * static_cast<double>(count);
    all += macs;
    if (macs > 0 && rows_of(trace.names[call.output]) == tokens) of_tokens += macs;
  }
  return kPart * of_tokens >= all;
}

// Only what is recorded: whether there is a backward pass, the batch of a server, or token ids.
void set_task(const ForeignTrace& trace, const ImportedSteps& steps, Setting& setting) {
  setting.task = steps.has_backward ? "train" : "forward";
  int64_t contexts = 0, generations = 0, tokens = 0;
  bool is_one_batch = !steps.batches.empty();
  for (const ServingBatch& batch : steps.batches) {
    is_one_batch = is_one_batch && batch.contexts == steps.batches[0].contexts &&
                   batch.generations == steps.batches[0].generations &&
                   batch.context_tokens == steps.batches[0].context_tokens;
    contexts = std::max(contexts, batch.contexts);
    generations = std::max(generations, batch.generations);
    tokens = std::max(tokens, batch.context_tokens);
  }
  if (contexts > 0 || generations > 0) {
    setting.task = contexts == 0 ? "decode" : generations == 0 ? "prefill" : "mixed";
    if (!is_one_batch || setting.task == "mixed") return;
    setting.batch_size = std::max(contexts, generations);
    setting.sequence = contexts == 0 ? 1 : tokens % contexts == 0 ? tokens / contexts : 0;
    if (setting.sequence == 0) setting.batch_size = 0;
    return;
  }
  if (!are_of_tokens(trace, steps)) return;
  setting.batch_size = trace.batch_size;
  setting.sequence = trace.sequence;
  if (!steps.has_backward && trace.sequence > 0)
    setting.task = trace.sequence == 1 ? "decode" : "prefill";
}

}  // namespace

Setting imported_setting(const ForeignTrace& trace,
                         const ImportedSteps& steps,
                         std::optional<DType> product_type) {
  if (trace.setting) return *trace.setting;
  Setting setting;
  setting.model = trace_title(trace.source);
  setting.device = steps.is_on_device ? "gpu" : "cpu";
  if (trace.is_of_kernels) {
    setting.level = "trace";
    return setting;
  }
  setting.level = steps.is_compiled                                           ? "compile"
                  : steps.attribution.share(steps.attribution.graph_ns) > 0.5 ? "graph"
                                                                              : "eager";
  if (product_type.value_or(DType::kF32) == DType::kF32 && trace.uses_tf32)
    setting.dtype = "tf32";
  else if (product_type)
    setting.dtype = dtype_option(*product_type);
  set_task(trace, steps, setting);
  return setting;
}

std::string trace_title(const std::string& path) {
  std::string name = std::filesystem::path(path).filename().string();
  for (const char* ending : {".gz", ".json", ".csv", ".trace", ".pt", ".sqlite"})
    if (name.ends_with(ending) && name.size() > std::string_view(ending).size())
      name.resize(name.size() - std::string_view(ending).size());
  return name;
}

}  // namespace ridge::record
