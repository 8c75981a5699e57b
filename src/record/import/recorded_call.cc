// SPDX-License-Identifier: Apache-2.0
// Reads the arguments of calls.
#include "record/import/recorded_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/error.h"

namespace ridge::record {
namespace {

using nlohmann::json;

constexpr int64_t kMostCount = int64_t{1} << 60;
constexpr int64_t kMostElements = int64_t{1} << 50;  // in a tensor
constexpr size_t kMostRank = 64;
constexpr size_t kLongestValue = 100;  // longer values are no sizes

// The names of C++ types in traces.
constexpr std::pair<std::string_view, DType> kTypes[] = {
    {"float", DType::kF32},
    {"double", DType::kF64},
    {"c10::BFloat16", DType::kBF16},
    {"c10::Half", DType::kF16},
    {"long int", DType::kI64},
    {"long", DType::kI64},
    {"long long", DType::kI64},
    {"int", DType::kI32},
    {"short int", DType::kI16},
    {"short", DType::kI16},
    {"signed char", DType::kI8},
    {"unsigned char", DType::kU8},
    {"bool", DType::kBool},
    {"c10::Float8_e4m3fn", DType::kF8E4M3},
    {"c10::Float8_e5m2", DType::kF8E5M2},
    {"c10::Float8_e4m3fnuz", DType::kF8E4M3},
    {"c10::Float8_e5m2fnuz", DType::kF8E5M2},
    {"c10::Float8_e8m0fnu", DType::kU8},
    {"c10::Float4_e2m1fn_x2", DType::kU8},
    {"Float8_e4m3fn", DType::kF8E4M3},
    {"Float8_e4m3fnuz", DType::kF8E4M3},
    {"Float8_e5m2", DType::kF8E5M2},
    {"Float8_e5m2fnuz", DType::kF8E5M2},
    {"Float8_e8m0fnu", DType::kU8},
    {"Float4_e2m1fn_x2", DType::kU8},
    {"unsigned short", DType::kU16},
    {"unsigned int", DType::kU32},
    {"unsigned long", DType::kU64},
    // Names of scalar types.
    {"Float", DType::kF32},
    {"Double", DType::kF64},
    {"BFloat16", DType::kBF16},
    {"c10::bfloat16", DType::kBF16},
    {"c10::half", DType::kF16},
    {"Half", DType::kF16},
    {"Long", DType::kI64},
    {"Int", DType::kI32},
    {"Short", DType::kI16},
    {"Char", DType::kI8},
    {"Byte", DType::kU8},
    {"Bool", DType::kBool},
    // Pairs of numbers: read_operand adds an axis of two.
    {"c10::complex<float>", DType::kF32},
    {"c10::complex<double>", DType::kF64},
};

std::optional<DType> type_of(std::string_view name) {
  for (const auto& [each, dtype] : kTypes)
    if (each == name) return dtype;
  return std::nullopt;
}

const json* list(const json& args, const char* key) {
  const auto found = args.find(key);
  return found != args.end() && found->is_array() ? &*found : nullptr;
}

Extents read_extents(const json& dims) {
  if (dims.size() > kMostRank)
    throw file_error("[import] expected a tensor of at most {} axes, found {}", kMostRank,
                     dims.size());
  Extents extents;
  int64_t elements = 1;
  for (const json& dim : dims) {
    const int64_t extent = dim.is_number_integer() ? dim.get<int64_t>() : -1;
    if (extent < 0 || extent > kMostElements)
      throw file_error("[import] expected an extent from 0 to 2^50, found {}", dim.dump());
    extents.push_back(extent);
    if (__builtin_mul_overflow(elements, std::max<int64_t>(extent, 1), &elements) ||
        elements > kMostElements)
      throw file_error("[import] expected a tensor of at most 2^50 elements, found [{}]",
                       fmt::join(extents, ","));
  }
  return extents;
}

bool is_list_of_lists(const json& dims) { return !dims.empty() && dims.front().is_array(); }

Operand read_operand(const json* dims, std::string_view type, const json* value) {
  Operand operand;
  if (value != nullptr && value->is_string() &&
      value->get_ref<const std::string&>().size() <= kLongestValue)
    operand.value = value->get<std::string>();
  const bool has_dims = dims != nullptr && dims->is_array();
  if (const std::optional<DType> dtype = type_of(type);
      dtype && has_dims && !is_list_of_lists(*dims)) {
    operand.kind = Operand::Kind::kTensor;
    operand.dtype = *dtype;
    operand.tensors.push_back(read_extents(*dims));
    if (type.starts_with("c10::complex")) operand.tensors.back().push_back(2);
  } else if (has_dims && is_list_of_lists(*dims)) {
    operand.kind = Operand::Kind::kTensorList;
    for (const json& each : *dims)
      if (each.is_array() && !is_list_of_lists(each)) operand.tensors.push_back(read_extents(each));
  } else if (!operand.value.empty()) {
    operand.kind = Operand::Kind::kScalar;
  }
  return operand;
}

}  // namespace

int64_t count_product(std::span<const int64_t> factors) {
  int64_t product = 1;
  for (const int64_t factor : factors)
    if (factor < 0 || __builtin_mul_overflow(product, factor, &product) || product > kMostCount)
      throw file_error("[import] expected counts up to 2^60, found {}", fmt::join(factors, " x "));
  return product;
}

int64_t Operand::elements() const {
  int64_t sum = 0;
  for (const Extents& extents : tensors)
    if (__builtin_add_overflow(sum, count_product(extents), &sum) || sum > kMostCount)
      throw file_error("[import] expected a list of at most 2^60 elements");
  return sum;
}

int64_t Operand::bytes() const { return count_product({elements(), info(dtype).bytes_per_block}); }

std::string Operand::type_text() const {
  if (kind == Kind::kTensor) return record::type_text(dtype, extents());
  return fmt::format("{} x {} elements", tensors.size(), elements());
}

std::string type_text(DType dtype, const Extents& extents) {
  return fmt::format("{}[{}]", name(dtype), fmt::join(extents, ","));
}

std::string RecordedCall::text() const {
  std::string text;
  for (const Operand& operand : operands)
    if (!operand.tensors.empty()) text += (text.empty() ? "" : ", ") + operand.type_text();
  return text;
}

RecordedCall recorded_call(const json& args) {
  RecordedCall call;
  const json* dims = list(args, "Input Dims");
  const json* types = list(args, "Input type");
  const json* values = list(args, "Concrete Inputs");
  if (dims == nullptr || types == nullptr) return call;
  for (size_t i = 0; i < std::min(dims->size(), types->size()); ++i) {
    const json& type = (*types)[i];
    call.operands.push_back(read_operand(
        &(*dims)[i], type.is_string() ? type.get_ref<const std::string&>() : std::string(),
        values != nullptr && i < values->size() ? &(*values)[i] : nullptr));
  }
  return call;
}

RecordedCall call_of_text(std::string_view text) {
  RecordedCall call;
  while (!text.empty()) {
    const size_t end = std::min(text.find(", "), text.size());
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 2));
    const size_t open = part.find('[');
    const std::optional<DType> dtype = parse_dtype(part.substr(0, std::min(open, part.size())));
    if (open == std::string_view::npos || !part.ends_with(']') || !dtype) continue;
    Operand operand;
    operand.kind = Operand::Kind::kTensor;
    operand.dtype = *dtype;
    operand.tensors.push_back(integers(part.substr(open), ","));
    call.operands.push_back(std::move(operand));
  }
  return call;
}

std::vector<int64_t> integers(std::string_view text, std::string_view separator) {
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  std::vector<int64_t> all;
  while (!text.empty()) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) return {};
    all.push_back(number);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (!text.empty() && !text.starts_with(separator)) return {};
    text.remove_prefix(std::min(text.size(), separator.size()));
  }
  return all;
}

}  // namespace ridge::record
