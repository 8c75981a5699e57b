// SPDX-License-Identifier: Apache-2.0
// Converts row by row, on all threads. A row that only moves keeps its bytes.
#include "models/weight_writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>

#include "base/block_formats.h"
#include "base/error.h"
#include "base/finite.h"
#include "base/printable.h"
#include "files/quantize.h"
#include "models/random_weights.h"
#include "models/row_order.h"

namespace ridge::models {
namespace {

// Runs act(row) for each row on all threads; if several throw, the Error of the first row is
// rethrown.
template <typename Act>
void each_row(int64_t rows, int64_t width, Act act) {
  // Elements; fewer are converted before a thread wakes up.
  constexpr int64_t kWorthThreads = int64_t{1} << 16;
  std::exception_ptr error;
  int64_t failed = rows;
#pragma omp parallel for schedule(dynamic, 16) if (rows * width > kWorthThreads)
  for (int64_t row = 0; row < rows; ++row) {
    try {
      act(row);
    } catch (...) {
#pragma omp critical(ridge_weight_writer)
      if (row < failed) failed = row, error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

// A file is never made of weights that no program can use, whatever their type.
void expect_finite(std::span<const float> values, int64_t row) {
  if (all_finite(values)) return;
  const auto bad = std::find_if_not(values.begin(), values.end(),
                                    [](float value) { return std::isfinite(value); });
  throw file_error("[convert] expected finite weights, found {} in element {} of row {}", *bad,
                   bad - values.begin(), row);
}

void quantize_row(DType type,
                  std::span<const float> values,
                  int64_t row,
                  std::span<std::byte> out) {
  try {
    files::quantize(type, values, out);
  } catch (const Error& error) {
    throw Error(fmt::format("{} of row {}", error.what(), row), error.code());
  }
}

// How a tensor is cut into rows. A bias of q or k has rows of one element if they move; other
// vectors are one row.
struct Rows {
  Rows(const Parameter& parameter, const RowOrder& order)
      : count(parameter.shape.rank() == 2 || order.moves() ? parameter.shape[0] : 1),
        width(parameter.shape.elements() / count) {}
  int64_t count, width;
};

// The order of a matrix's columns, which PackedWeights made; empty if they are in the model's.
std::span<const int32_t> order_of(const ModelFile& file, const StoredWeight& stored) {
  if (stored.order.empty()) return {};
  const std::span<const std::byte> bytes = file.tensors().at(stored.order).bytes;
  return {reinterpret_cast<const int32_t*>(bytes.data()), bytes.size() / sizeof(int32_t)};
}

std::vector<float> in_order_of_model(const std::vector<float>& row,
                                     std::span<const int32_t> order) {
  std::vector<float> ordered(row.size());
  for (size_t i = 0; i < row.size(); ++i) ordered[static_cast<size_t>(order[i])] = row[i];
  return ordered;
}

}  // namespace

files::TensorSource WeightWriter::source(const Parameter& parameter, std::string name, DType type) {
  if (!file_.has_weights())
    return {std::move(name), type, parameter.shape, [this, parameter, type] {
              std::span<const std::byte> bytes = draw(parameter, type);
              if (progress_) progress_(static_cast<int64_t>(bytes.size()));
              return bytes;
            }};
  StoredWeight stored = file_.lookup()(parameter.name, parameter.shape);
  if (!is_float(stored.dtype) && !is_block(stored.dtype) && stored.dtype != DType::kF8E4M3 &&
      stored.dtype != DType::kF8E5M2)
    throw file_error("[{}] tensor {}: expected a floating-point type, found {}",
                     file_.path().string(), printable(stored.name), ridge::name(stored.dtype));
  auto read = [this, parameter, stored, type] {
    const files::FileTensor from = file_.stored(stored.name);
    try {
      std::span<const std::byte> bytes = convert(parameter, from, order_of(file_, stored), type);
      if (progress_) progress_(static_cast<int64_t>(bytes.size()));
      return bytes;
    } catch (const Error& error) {
      throw Error(fmt::format("{} in tensor {} of {}", error.what(), printable(from.name),
                              file_.path().string()),
                  error.code());
    }
  };
  return {std::move(name), type, parameter.shape, read};
}

std::span<const std::byte> WeightWriter::convert(const Parameter& parameter,
                                                 const files::FileTensor& from,
                                                 std::span<const int32_t> order,
                                                 DType type) {
  const ModelConfig& source = file_.config();
  double added = is_norm(parameter.name) ? source.norm_offset - form_.norm_offset : 0;
  RowOrder row_order(source.head_size, source.rope_interleaved,
                     is_rotated(parameter.name) ? form_.rope_interleaved : source.rope_interleaved);
  const WeightChange* change = adapter_ == nullptr ? nullptr : adapter_->find(parameter);
  const bool keeps_bytes = from.dtype == type && added == 0 && change == nullptr && order.empty();
  const bool stays = keeps_bytes && !row_order.moves();
  // The change has its rows in the order of Hugging Face's files.
  const RowOrder of_change(source.head_size, is_rotated(parameter.name) && source.rope_interleaved,
                           false);
  const Rows rows(parameter, row_order);
  size_t from_bytes = static_cast<size_t>(storage_bytes(from.dtype, rows.width));
  size_t to_bytes = static_cast<size_t>(storage_bytes(type, rows.width));
  if (!stays) buffer_.resize(static_cast<size_t>(rows.count) * to_bytes);
  each_row(rows.count, rows.width, [&](int64_t row) {
    std::span<const std::byte> in =
        from.bytes.subspan(static_cast<size_t>(row) * from_bytes, from_bytes);
    std::vector<float> values(static_cast<size_t>(rows.width));
    dequantize(from.dtype, in, values);
    expect_finite(values, row);
    if (stays) return;
    if (!order.empty()) values = in_order_of_model(values, order);
    std::span<std::byte> out =
        std::span(buffer_).subspan(static_cast<size_t>(row_order.at(row)) * to_bytes, to_bytes);
    if (keeps_bytes) {
      std::memcpy(out.data(), in.data(), to_bytes);
      return;
    }
    if (added != 0)
      for (float& value : values) value += static_cast<float>(added);
    if (change != nullptr) change->add_to(of_change.at(row), values);
    quantize_row(type, values, row, out);
  });
  if (stays) return from.bytes;
  file_.release(from.bytes);
  return buffer_;
}

std::span<const std::byte> WeightWriter::draw(const Parameter& parameter, DType type) {
  const RandomWeights weights(parameter, form_.norm_offset, seed_);
  const RowOrder order(form_.head_size, false,
                       is_rotated(parameter.name) && form_.rope_interleaved);
  const Rows rows(parameter, order);
  const size_t row_bytes = static_cast<size_t>(storage_bytes(type, rows.width));
  buffer_.resize(static_cast<size_t>(rows.count) * row_bytes);
  each_row(rows.count, rows.width, [&](int64_t row) {
    std::vector<float> values(static_cast<size_t>(rows.width));
    weights.draw(row, values);
    quantize_row(
        type, values, row,
        std::span(buffer_).subspan(static_cast<size_t>(order.at(row)) * row_bytes, row_bytes));
  });
  return buffer_;
}

}  // namespace ridge::models
