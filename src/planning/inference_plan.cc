// SPDX-License-Identifier: Apache-2.0
// Plans each batch and length, then searches what fits, each on a thread of its own.
#include "planning/plans.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <string>

#include "base/error.h"
#include "base/in_parallel.h"
#include "cost/resource_plan.h"
#include "planning/phase_plan.h"
#include "serve/session_choice.h"

namespace ridge::planning {
namespace {

std::vector<int64_t> usual_lengths(int64_t context) {
  std::vector<int64_t> lengths;
  for (int64_t length : {128, 512, 2048})
    if (length < context) lengths.push_back(length);
  if (lengths.size() < 3) lengths.push_back(context);
  return lengths;
}

InferencePlanRequest checked(InferencePlanRequest request, int64_t context) {
  if (request.batches.empty()) request.batches = {1, 8, 32};
  if (request.lengths.empty()) request.lengths = usual_lengths(context);
  for (int64_t batch : request.batches)
    if (batch > serve::kMostSlots)
      throw usage_error("[batch-size] expected at most {} sequences, got {}", serve::kMostSlots,
                        batch);
  for (int64_t length : request.lengths)
    if (length > context)
      throw usage_error("[seq-len] expected at most {} positions, the model's context, got {}",
                        context, length);
  return request;
}

// The bytes of the file's tensors by type; empty for a shape without weights.
std::map<DType, int64_t> file_bytes(const models::ModelFile& file) {
  std::map<DType, int64_t> bytes;
  if (!file.has_weights()) return bytes;
  for (const files::FileTensor& tensor : file.tensors().all())
    bytes[tensor.dtype] += static_cast<int64_t>(tensor.bytes.size());
  return bytes;
}

}  // namespace

record::InferencePlan plan_inference(const models::ModelFile& file,
                                     const InferencePlanRequest& asked,
                                     const TargetHardware& hardware,
                                     const SearchListener& listener) {
  const models::ModelConfig& config = file.config();
  const InferencePlanRequest request = checked(asked, config.context);
  const auto setup = [&](int64_t batch, int64_t length) {
    serve::PhaseSetup each = request.setup;
    each.setting.dtype = each.selection.gemm_dtype();
    hardware.name_in(each.setting);
    each.batch = batch;
    each.length = length;
    return each;
  };
  const passes::PassTarget& target = hardware.target_of(request.setup.selection);
  const auto planned = [&](int64_t batch, int64_t length) {
    return plan_phases(file, setup(batch, length), target, &hardware.ceilings);
  };
  record::InferencePlan plan;
  plan.hardware = hardware;
  plan.model = request.setup.setting.model;
  plan.level = request.setup.selection.level();
  plan.parameters = config.parameters();
  plan.context = config.context;
  plan.chunk = request.setup.chunk;
  plan.ranks = request.setup.selection.tensor_ranks();
  plan.most_batch = serve::kMostSlots;
  plan.cache_dtype = serve::cache_dtype_name(
      request.setup.cache_dtype.value_or(request.setup.selection.activations()));
  plan.file_bytes = file_bytes(file);
  const size_t lengths = request.lengths.size(), batches = request.batches.size();
  plan.plans.resize(lengths * batches);
  in_parallel(std::ssize(plan.plans), [&](int64_t index) {
    const auto i = static_cast<size_t>(index);
    plan.plans[i] = planned(request.batches[i % batches], request.lengths[i / batches]);
  });
  if (hardware.memory_bytes <= 0) return plan;
  std::mutex mutex;  // guards the listener
  const auto bytes = [&](int64_t batch, int64_t length) {
    {
      const std::lock_guard lock(mutex);
      listener("what fits", "plans", fmt::format("{} x {}", batch, length));
    }
    return session_bytes(file, setup(batch, length), target);
  };
  const auto largest_at = [&](int64_t length) {
    record::LargestBatch largest{length, 0, 0};
    largest.batch = cost::largest_fitting(hardware.memory_bytes, serve::kMostSlots,
                                          [&](int64_t batch) { return bytes(batch, length); });
    if (largest.batch > 0)
      largest.decode_ns = planned(largest.batch, length).records.decode.predicted_ns;
    return largest;
  };
  const auto longest_of = [&](int64_t batch) {
    return record::LongestContext{
        batch, cost::largest_fitting(hardware.memory_bytes, config.context,
                                     [&](int64_t length) { return bytes(batch, length); })};
  };
  plan.largest_batches.resize(lengths);
  plan.longest_contexts.resize(batches);
  in_parallel(std::ssize(request.lengths) + std::ssize(request.batches), [&](int64_t index) {
    const auto i = static_cast<size_t>(index);
    if (i < lengths)
      plan.largest_batches[i] = largest_at(request.lengths[i]);
    else
      plan.longest_contexts[i - lengths] = longest_of(request.batches[i - lengths]);
  });
  return plan;
}

}  // namespace ridge::planning
