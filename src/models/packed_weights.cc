// SPDX-License-Identifier: Apache-2.0
// Checks the parts of packed matrices, and converts them row by row.
#include "models/packed_weights.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <numeric>

#include "base/bf16.h"
#include "base/block_formats.h"
#include "base/error.h"
#include "base/printable.h"

namespace ridge::models {
namespace {

using files::FileTensor;

constexpr int64_t kWordQuants = 8;  // each has 4 bits
constexpr int kMiddle = 8;          // the zero point of symmetric quantization

// AWQ has column c of eight at this nibble of a word.
constexpr std::array<int, 8> kAwqNibbles = {0, 4, 1, 5, 2, 6, 3, 7};

// A file's numbers may be at any address.
template <typename T>
T number_at(std::span<const std::byte> bytes, int64_t index) {
  T value;
  std::memcpy(&value, bytes.data() + static_cast<size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

int nibble(std::span<const std::byte> words, int64_t word, int64_t place) {
  return static_cast<int>(number_at<uint32_t>(words, word) >> (4 * place) & 15);
}

int quant_of(const PackedMatrix& m, int64_t row, int64_t column) {
  switch (m.format) {
    case PackedFormat::kGptq:
      return nibble(m.quants, column / kWordQuants * m.out + row, column % kWordQuants);
    case PackedFormat::kAwq:
      return nibble(m.quants, (column * m.out + row) / kWordQuants,
                    kAwqNibbles[static_cast<size_t>(row % kWordQuants)]);
    default:
      return nibble(m.quants, (row * m.in + column) / kWordQuants, column % kWordQuants);
  }
}

// Eight quants from a column on, the first one in the low bits.
uint32_t eight_quants(const PackedMatrix& m, int64_t row, int64_t column) {
  if (m.order.empty() && m.format == PackedFormat::kGptq)
    return number_at<uint32_t>(m.quants, column / kWordQuants * m.out + row);
  if (m.order.empty() && m.format == PackedFormat::kCompressed)
    return number_at<uint32_t>(m.quants, (row * m.in + column) / kWordQuants);
  uint32_t word = 0;
  for (int64_t i = 0; i < kWordQuants; ++i) {
    const int64_t from = m.order.empty() ? column + i : m.order[static_cast<size_t>(column + i)];
    word |= static_cast<uint32_t>(quant_of(m, row, from)) << (4 * i);
  }
  return word;
}

int zero_of(const PackedMatrix& m, int64_t row, int64_t group) {
  if (m.zeros.empty()) return kMiddle;
  if (m.format == PackedFormat::kCompressed)
    return nibble(m.zeros, row / kWordQuants * m.groups() + group, row % kWordQuants);
  const int64_t place = m.format == PackedFormat::kAwq
                            ? kAwqNibbles[static_cast<size_t>(row % kWordQuants)]
                            : row % kWordQuants;
  return nibble(m.zeros, (group * m.out + row) / kWordQuants, place) + (m.zeros_less_one ? 1 : 0);
}

uint16_t scale_of(const PackedMatrix& m, int64_t row, int64_t group) {
  const int64_t at =
      m.format == PackedFormat::kCompressed ? row * m.groups() + group : group * m.out + row;
  if (m.scale_type == DType::kF16) return number_at<uint16_t>(m.scales, at);
  const float scale = m.scale_type == DType::kF32
                          ? number_at<float>(m.scales, at)
                          : bf16_to_float(number_at<uint16_t>(m.scales, at));
  const uint16_t half = float_to_f16(scale);
  if (f16_to_float(half) != scale)
    throw file_error("[packed weights] expected scales that fp16 holds, found {} in row {}", scale,
                     row);
  return half;
}

// Each nibble to a byte.
uint64_t spread(uint32_t word) {
  uint64_t bytes = word;
  bytes = (bytes | bytes << 16) & 0x0000ffff0000ffffu;
  bytes = (bytes | bytes << 8) & 0x00ff00ff00ff00ffu;
  return (bytes | bytes << 4) & 0x0f0f0f0f0f0f0f0fu;
}

void set_group(const PackedMatrix& m, int64_t row, int64_t group, int, BlockQ4_0& block) {
  block.scale = scale_of(m, row, group);
}
template <HasZeros Block>
void set_group(const PackedMatrix& m, int64_t row, int64_t group, int index, Block& block) {
  block.scales[index] = scale_of(m, row, group);
  block.zeros[index] = static_cast<uint8_t>(zero_of(m, row, group));
}

template <typename Block>
constexpr int group_elements() {
  if constexpr (HasZeros<Block>)
    return Block::kGroup;
  else
    return kBlockElements;
}

template <typename Block>
void unpack_row(const PackedMatrix& m, int64_t row, std::byte* to) {
  constexpr int kElements = block_elements<Block>(), kGroup = group_elements<Block>();
  for (int64_t first = 0; first < m.in; first += kElements, to += sizeof(Block)) {
    Block block{};
    for (int g = 0; g < kElements / kGroup; ++g)
      set_group(m, row, (first + g * kGroup) / m.group, g, block);
    for (int i = 0; i < kElements; i += static_cast<int>(kWordQuants)) {
      uint8_t* quants = block.quants + i / 32 * 16 + i % 16;
      uint64_t bytes;
      std::memcpy(&bytes, quants, sizeof bytes);
      bytes |= spread(eight_quants(m, row, first + i)) << (i % 32 / 16 * 4);
      std::memcpy(quants, &bytes, sizeof bytes);
    }
    std::memcpy(to, &block, sizeof(Block));
  }
}

// ---- the parts of a matrix in a file ----

const FileTensor& typed(const files::TensorTable& stored,
                        const std::string& name,
                        DType type,
                        const Shape& shape) {
  const FileTensor& tensor = stored.at(name, shape);
  if (tensor.dtype != type)
    throw file_error("[{}] tensor {}: expected {}, found {}", stored.source(), printable(name),
                     ridge::name(type), ridge::name(tensor.dtype));
  return tensor;
}

// The suffix of the tensor that holds the quants.
std::string_view quants_suffix(PackedFormat format) {
  return format == PackedFormat::kCompressed ? ".weight_packed" : ".qweight";
}

Error wrong_shape(const files::TensorTable& stored,
                  const FileTensor& tensor,
                  const std::string& expected) {
  return file_error("[{}] tensor {}: expected {}, found {}", stored.source(),
                    printable(tensor.name), expected, tensor.shape.str());
}

// The extents [out, in] of a matrix from the tensor of its quants.
PackedMatrix sized(const QuantizationConfig& config,
                   const files::TensorTable& stored,
                   const FileTensor& quants) {
  PackedMatrix m{.format = config.format, .zeros_less_one = config.zeros_less_one};
  constexpr int64_t kMost = int64_t{1} << 31;
  const Shape& shape = quants.shape;
  if (quants.dtype != DType::kI32 || shape.rank() != 2 || shape.elements() == 0 ||
      shape[0] > kMost || shape[1] > kMost)
    throw wrong_shape(stored, quants, "a matrix of i32");
  switch (config.format) {
    case PackedFormat::kGptq:
      m.in = shape[0] * kWordQuants, m.out = shape[1];
      break;
    case PackedFormat::kAwq:
      m.in = shape[0], m.out = shape[1] * kWordQuants;
      break;
    case PackedFormat::kCompressed:
      m.out = shape[0], m.in = shape[1] * kWordQuants;
  }
  m.group = config.group == 0 ? m.in : config.group;
  if (m.in % m.group != 0 || m.group % kBlockElements != 0)
    throw wrong_shape(stored, quants,
                      fmt::format("whole groups of {} columns", std::max<int64_t>(m.group, 32)));
  if (m.out % kWordQuants != 0)
    throw wrong_shape(stored, quants, fmt::format("a multiple of {} rows", kWordQuants));
  m.quants = quants.bytes;
  return m;
}

void set_scales(const std::string& name, const files::TensorTable& stored, PackedMatrix& m) {
  const Shape shape =
      m.format == PackedFormat::kCompressed ? Shape{m.out, m.groups()} : Shape{m.groups(), m.out};
  const FileTensor& scales = stored.at(name, shape);
  m.scale_type = scales.dtype;
  if (m.scale_type != DType::kF16 && m.scale_type != DType::kBF16 && m.scale_type != DType::kF32)
    throw file_error("[{}] tensor {}: expected f16, bf16 or f32, found {}", stored.source(),
                     printable(name), ridge::name(m.scale_type));
  m.scales = scales.bytes;
}

bool is_symmetric(const PackedMatrix& m) {
  for (int64_t group = 0; group < m.groups(); ++group)
    for (int64_t row = 0; row < m.out; ++row)
      if (zero_of(m, row, group) != kMiddle) return false;
  return true;
}

// Groups of 64 and others are stored as several of 32 or of 128.
DType block_type(const PackedMatrix& m) {
  if (m.group % BlockQ4_G128::kGroup == 0) return DType::kQ4_G128;
  return is_symmetric(m) ? DType::kQ4_0 : DType::kQ4_G32;
}

}  // namespace

void unpack(const PackedMatrix& matrix, DType to, std::span<std::byte> blocks) {
  check_storage(to, static_cast<size_t>(matrix.out * matrix.in), blocks);
  const auto row_bytes = storage_bytes(to, matrix.in);
  std::exception_ptr error;
  constexpr int64_t kRows = 16;  // GPTQ has the words of so many rows in a cache line
#pragma omp parallel for schedule(static, kRows)
  for (int64_t row = 0; row < matrix.out; ++row) {
    std::byte* at = blocks.data() + row * row_bytes;
    try {
      to == DType::kQ4_G128  ? unpack_row<BlockQ4_G128>(matrix, row, at)
      : to == DType::kQ4_G32 ? unpack_row<BlockQ4_G32>(matrix, row, at)
                             : unpack_row<BlockQ4_0>(matrix, row, at);
    } catch (...) {
#pragma omp critical(ridge_packed_weights)
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

PackedWeights::PackedWeights(const QuantizationConfig& config, const files::TensorTable& stored)
    : table_(stored.source()) {
  const std::string_view suffix = quants_suffix(config.format);
  std::vector<std::string> modules;
  for (const FileTensor& tensor : stored.all())
    if (tensor.name.ends_with(suffix))
      modules.push_back(tensor.name.substr(0, tensor.name.size() - suffix.size()));
  if (modules.empty())
    throw file_error("[{}] expected quantized matrices, as the configuration says, found none",
                     stored.source());
  std::map<std::string_view, bool> parts;
  for (const std::string& module : modules) {
    add(module, config, stored);
    for (const char* part :
         {".qweight", ".qzeros", ".scales", ".g_idx", ".weight_packed", ".weight_scale",
          ".weight_zero_point", ".weight_shape", ".weight_g_idx"})
      if (const FileTensor* tensor = stored.find(module + part)) parts[tensor->name] = true;
  }
  for (const FileTensor& tensor : stored.all())
    if (!parts.contains(tensor.name)) table_.add(tensor);
}

void PackedWeights::add(const std::string& module,
                        const QuantizationConfig& config,
                        const files::TensorTable& stored) {
  const bool is_compressed = config.format == PackedFormat::kCompressed;
  const std::string quants_name = module + std::string(quants_suffix(config.format));
  PackedMatrix m = sized(config, stored, stored.at(quants_name));
  set_scales(module + (is_compressed ? ".weight_scale" : ".scales"), stored, m);
  const std::string zeros = module + (is_compressed ? ".weight_zero_point" : ".qzeros");
  if (!is_compressed || stored.find(zeros) != nullptr)
    m.zeros = typed(stored, zeros, DType::kI32,
                    is_compressed ? Shape{m.out / kWordQuants, m.groups()}
                                  : Shape{m.groups(), m.out / kWordQuants})
                  .bytes;
  Converted& entry = entries_.emplace_back();
  entry.name = module + ".weight";
  entry.matrix = m;
  const std::string indices = module + (is_compressed ? ".weight_g_idx" : ".g_idx");
  if (config.format != PackedFormat::kAwq && stored.find(indices) != nullptr)
    set_order(entry, typed(stored, indices, DType::kI32, {m.in}));
  entry.dtype = block_type(m);
  if (m.in % info(entry.dtype).elements_per_block != 0)
    throw wrong_shape(
        stored, stored.at(quants_name),
        fmt::format("a multiple of {} columns", info(entry.dtype).elements_per_block));
  const Shape shape{m.out, m.in};
  entry.arena = Arena(storage_bytes(entry.dtype, shape.elements()), "packed weights");
  const std::span<const std::byte> bytes(entry.arena.data(),
                                         static_cast<size_t>(entry.arena.bytes()));
  table_.add({entry.name, entry.dtype, shape, bytes});
  by_name_[entry.name] = &entry;
  by_address_[bytes.data()] = &entry;
}

void PackedWeights::set_order(Converted& entry, const FileTensor& group_indices) {
  const PackedMatrix& m = entry.matrix;
  std::vector<int32_t> groups(static_cast<size_t>(m.in)), order(groups.size());
  std::memcpy(groups.data(), group_indices.bytes.data(), group_indices.bytes.size());
  std::vector<int64_t> columns(static_cast<size_t>(m.groups()));
  for (int32_t group : groups) {
    if (group < 0 || group >= m.groups())
      throw file_error("[{}] tensor {}: expected groups from 0 to {}, found {}", table_.source(),
                       printable(group_indices.name), m.groups() - 1, group);
    ++columns[static_cast<size_t>(group)];
  }
  if (!std::ranges::all_of(columns, [&](int64_t count) { return count == m.group; }))
    throw file_error("[{}] tensor {}: expected {} columns in every group", table_.source(),
                     printable(group_indices.name), m.group);
  if (std::ranges::is_sorted(groups)) return;
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int32_t i) { return groups[static_cast<size_t>(i)]; });
  auto known =
      std::ranges::find_if(orders_, [&](const auto& each) { return each.second == order; });
  if (known == orders_.end()) {
    known = orders_.insert(orders_.end(), {entry.name + ".order", std::move(order)});
    table_.add({known->first, DType::kI32, {m.in}, std::as_bytes(std::span(known->second))});
  }
  entry.order = known->first;
  entry.matrix.order = known->second;
}

PackedWeights::Converted* PackedWeights::find(std::string_view name) {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

const PackedWeights::Converted* PackedWeights::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

const std::string& PackedWeights::order_of(std::string_view name) const {
  static const std::string none;
  const Converted* entry = find(name);
  return entry == nullptr ? none : entry->order;
}

std::vector<std::span<const std::byte>> PackedWeights::parts_of(std::string_view name) const {
  const Converted* entry = find(name);
  if (entry == nullptr || entry->is_filled) return {};
  return {entry->matrix.quants, entry->matrix.zeros, entry->matrix.scales};
}

std::span<const std::byte> PackedWeights::bytes(std::string_view name) {
  Converted* entry = find(name);
  if (entry == nullptr) return {};
  const std::span<std::byte> bytes(entry->arena.data(), static_cast<size_t>(entry->arena.bytes()));
  if (entry->is_filled) return bytes;
  try {
    unpack(entry->matrix, entry->dtype, bytes);
  } catch (const Error& error) {
    throw Error(
        fmt::format("{} of {} in {}", error.what(), printable(entry->name), table_.source()),
        error.code());
  }
  entry->is_filled = true;
  return bytes;
}

PackedWeights::Converted* PackedWeights::owner_of(std::span<const std::byte> part) {
  auto after = by_address_.upper_bound(part.data());
  if (after == by_address_.begin()) return nullptr;
  Converted* entry = std::prev(after)->second;
  return part.data() < entry->arena.data() + entry->arena.bytes() ? entry : nullptr;
}

void PackedWeights::keep(std::span<const std::byte> part) {
  if (Converted* entry = owner_of(part)) entry->is_kept = true;
}

void PackedWeights::release(std::span<const std::byte> part) {
  Converted* entry = owner_of(part);
  if (entry == nullptr || entry->is_kept) return;
  entry->is_filled = false;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = static_cast<size_t>(part.data() - entry->arena.data());
  const size_t first = (begin + page - 1) / page * page, end = (begin + part.size()) / page * page;
  if (first < end) ::madvise(entry->arena.data() + first, end - first, MADV_DONTNEED);
}

}  // namespace ridge::models
