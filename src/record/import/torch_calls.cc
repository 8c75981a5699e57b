// SPDX-License-Identifier: Apache-2.0
// Keeps calls by the text of their arguments.
#include "record/import/torch_calls.h"

#include <algorithm>
#include <optional>

#include "record/import/torch_operations.h"

namespace ridge::record {

void note_counts(const Counts& counts, NameTable& names, RecordedCounts& call) {
  call.work = counts.work;
  call.model_macs = counts.model_macs;
  call.read_bytes = counts.read_bytes;
  call.written_bytes = counts.written_bytes;
  call.output_type = counts.output_type;
  call.output = names.number(type_text(counts.output_type, counts.output));
  call.macs_per_pair = counts.macs_per_pair;
  call.bytes_per_key = counts.bytes_per_key;
  call.are_known = counts.macs_per_pair == 0 || counts.work.macs > 0;
}

int32_t TorchCalls::call(uint32_t name, const std::string& arguments) {
  constexpr size_t kMostCalls = size_t{1} << 17, kLongestCall = 2000;
  if (arguments.empty()) return -1;
  key_.assign(reinterpret_cast<const char*>(&name), sizeof(name));
  key_ += arguments;
  if (const auto found = calls_.find(key_); found != calls_.end()) return found->second;
  const int32_t added = add(trace_.names[name], nlohmann::json::parse(arguments));
  if (key_.size() <= kLongestCall && calls_.size() < kMostCalls) calls_.emplace(key_, added);
  return added;
}

int32_t TorchCalls::add(std::string_view name, const nlohmann::json& args) {
  const TorchOperation& operation = torch_operation(name);
  const RecordedCall call = recorded_call(args);
  if (call.operands.empty()) return -1;
  note_batch(name, call);
  // A view of a tensor with three axes may be of the weights of experts.
  const bool has_three_axes = std::ranges::any_of(call.operands, [](const Operand& each) {
    return each.is_tensor() && each.extents().size() == 3;
  });
  if (operation.role == Role::kView && !has_three_axes) return -1;
  RecordedCounts recorded;
  recorded.inputs = trace_.names.number(call.text());
  if (call.tensor(0) != nullptr) recorded.elements = call.operands[0].elements();
  std::optional<Counts> counts;
  if (operation.count != nullptr) counts = operation.count(call, operation.arithmetic);
  if (counts) note_counts(*counts, trace_.names, recorded);
  trace_.calls.push_back(recorded);
  return static_cast<int32_t>(trace_.calls.size() - 1);
}

// Token ids are the matrix by which rows of the largest table are looked up, or the first matrix
// of integers that compiled code takes.
void TorchCalls::note_batch(std::string_view name, const RecordedCall& call) {
  if (name == "aten::embedding") {
    const Operand *table = call.tensor(0), *ids = call.tensor(1);
    if (table == nullptr || ids == nullptr || table->extents().size() != 2 ||
        ids->extents().size() != 2 || table->extents()[0] <= most_rows_)
      return;
    most_rows_ = table->extents()[0];
    note_ids(*ids);
  } else if (name == "CompiledFunction" && trace_.batch_size == 0) {
    for (const Operand& operand : call.operands)
      if (operand.is_tensor() && operand.dtype == DType::kI64 && operand.extents().size() == 2)
        return note_ids(operand);
  }
}

void TorchCalls::note_ids(const Operand& ids) {
  trace_.batch_size = ids.extents()[0];
  trace_.sequence = ids.extents()[1];
}

}  // namespace ridge::record
