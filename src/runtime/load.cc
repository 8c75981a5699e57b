// SPDX-License-Identifier: Apache-2.0
// Evaluates and inverts the few ops that a load graph may contain.
#include "runtime/load.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/arena.h"
#include "base/bf16.h"
#include "base/block_formats.h"
#include "base/error.h"
#include "base/random.h"
#include "base/repacked_tiles.h"
#include "runtime/read_ahead.h"

namespace ridge::runtime {
namespace {

bool joins_rows(const Node& node) {
  return node.op->name == "concat" && node.attrs.integer("axis") == 0;
}

std::vector<float> evaluate(const LoadGraph& load, ValueId value, const TensorSource& source) {
  const Node* node = load.graph.producer(value);
  if (node == nullptr) return source(load.graph.value(value).name, load.graph.type(value));
  if (node->op->name == "cast") return evaluate(load, node->inputs[0], source);
  RIDGE_CHECK(joins_rows(*node), "a load graph with '{}'", node->op->name);
  std::vector<float> joined;
  joined.reserve(static_cast<size_t>(load.graph.shape(value).elements()));
  for (ValueId part : node->inputs) {
    std::vector<float> rows = evaluate(load, part, source);
    joined.insert(joined.end(), rows.begin(), rows.end());
  }
  return joined;
}

bool is_narrow(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }

uint16_t narrowed(float value, DType dtype) {
  return dtype == DType::kF16 ? float_to_f16(value) : float_to_bf16(value);
}

// Casts through fp32 in runs, because an fp32 copy of a whole embedding table would be large.
// Threads share the runs, because the first token waits for all of them.
std::vector<std::byte> cast_bytes(DType from, std::span<const std::byte> bytes, const Type& to) {
  RIDGE_CHECK(to.dtype == DType::kF32 || is_narrow(to.dtype), "a load graph casts to {}", to.str());
  constexpr int64_t kRun = int64_t{1} << 16;  // whole blocks of any type; its floats fit in L2
  int64_t elements = to.shape.elements();
  std::vector<std::byte> made(static_cast<size_t>(storage_bytes(to.dtype, elements)));
#pragma omp parallel for schedule(static)
  for (int64_t begin = 0; begin < elements; begin += kRun) {
    int64_t count = std::min(kRun, elements - begin);
    std::vector<float> floats(static_cast<size_t>(count));
    dequantize(from,
               bytes.subspan(static_cast<size_t>(storage_bytes(from, begin)),
                             static_cast<size_t>(storage_bytes(from, count))),
               floats);
    std::byte* at = made.data() + storage_bytes(to.dtype, begin);
    if (to.dtype == DType::kF32)
      std::memcpy(at, floats.data(), floats.size() * sizeof(float));
    else
      for (size_t i = 0; i < floats.size(); ++i) {
        uint16_t bits = narrowed(floats[i], to.dtype);
        std::memcpy(at + i * sizeof bits, &bits, sizeof bits);
      }
  }
  return made;
}

// Writes a value's rows in type `to` from byte `begin` of the stored parameter `name`, part by part
// from where the source has them: no copy of a joined parameter is made. Returns where they end.
int64_t write_rows(const LoadGraph& load,
                   ValueId value,
                   DType to,
                   const StoredSource& source,
                   Store& store,
                   const std::string& name,
                   int64_t begin) {
  const Node* node = load.graph.producer(value);
  if (node == nullptr) {
    const Type& type = load.graph.type(value);
    std::span<const std::byte> bytes = source.bytes(load.graph.value(value).name);
    std::vector<std::byte> made;
    if (type.dtype != to) bytes = made = cast_bytes(type.dtype, bytes, {to, type.shape});
    store.write_part(name, begin, bytes.data(), std::ssize(bytes));
    return begin + std::ssize(bytes);
  }
  const bool is_cast = node->op->name == "cast";
  RIDGE_CHECK(is_cast || joins_rows(*node), "a load graph with '{}'", node->op->name);
  for (ValueId input : node->inputs) {
    const Node* maker = load.graph.producer(input);
    RIDGE_CHECK(!is_cast || maker == nullptr || joins_rows(*maker), "a cast of a cast");
    begin = write_rows(load, input, to, source, store, name, begin);
  }
  return begin;
}

// Whether a value's bytes are written run by run, directly into the store.
bool is_written_in_runs(const LoadGraph& load, ValueId value, const StoredSource& source) {
  return load.graph.producer(value) == nullptr ? source.copies
                                               : is_repacked(load.graph.type(value).dtype);
}

// Appends the tensors of the file that a value is made from.
void append_sources(const LoadGraph& load,
                    ValueId value,
                    const StoredSource& source,
                    ReadAhead::Parts& parts) {
  const Node* node = load.graph.producer(value);
  if (node == nullptr) return parts.push_back(source.bytes(load.graph.value(value).name));
  for (ValueId input : node->inputs) append_sources(load, input, source, parts);
}

struct StoredValue {
  std::string name;
  ValueId value;
  ReadAhead::Parts sources;
};

// All stored values. A disk is read fastest from front to back.
std::vector<StoredValue> in_file_order(const LoadGraph& load, const StoredSource& source) {
  std::vector<StoredValue> values;
  for (const auto& [name, value] : load.stored) {
    values.push_back({name, value, {}});
    append_sources(load, value, source, values.back().sources);
  }
  std::stable_sort(values.begin(), values.end(), [](const StoredValue& a, const StoredValue& b) {
    return std::less<>()(a.sources.front().data(), b.sources.front().data());
  });
  return values;
}

// The bytes that such values need of a store's reserve.
int64_t reserve_bytes(const LoadGraph& load, const StoredSource& source) {
  int64_t bytes = 0;
  for (const auto& [name, value] : load.stored) {
    const Type& type = load.graph.type(value);
    if (is_written_in_runs(load, value, source))
      bytes += round_up(storage_bytes(type.dtype, type.shape.elements()), kAlignmentBytes);
  }
  return bytes;
}

// Writes directly into the store's memory: only host kernels read tiles and copies. Releases the
// source of each run after it, because the embedding table is most of some models. Each thread has
// consecutive runs, because two threads that first touch one large page would both clear it.
void write_in_runs(std::span<const std::byte> from,
                   const StoredSource& source,
                   ReadAhead& ahead,
                   const Type& type,
                   std::byte* to) {
  constexpr int64_t kRunBytes = int64_t{2} << 20;
  const int64_t bytes = static_cast<int64_t>(from.size());
  RIDGE_CHECK(bytes == storage_bytes(type.dtype, type.shape.elements()), "{} has {} bytes",
              type.str(), bytes);
  int64_t run = kRunBytes;
  if (is_repacked(type.dtype)) {
    int64_t row_block_bytes = storage_bytes(type.dtype, kRepackedRows * type.shape[1]);
    run = std::max(kRunBytes / row_block_bytes, int64_t{1}) * row_block_bytes;
  }
#pragma omp parallel for schedule(static)
  for (int64_t begin = 0; begin < bytes; begin += run) {
    auto part =
        from.subspan(static_cast<size_t>(begin), static_cast<size_t>(std::min(run, bytes - begin)));
    if (is_repacked(type.dtype))
      repack_rows(type.dtype, type.shape[1], part, {to + begin, part.size()});
    else
      std::copy(part.begin(), part.end(), to + begin);
    source.release(part);
    ahead.advance(std::ssize(part));
  }
}

void invert(const LoadGraph& load, ValueId value, std::vector<float> data, const TensorSink& sink) {
  const Node* node = load.graph.producer(value);
  if (node == nullptr) {
    sink(load.graph.value(value).name, load.graph.type(value), std::move(data));
    return;
  }
  if (node->op->name == "cast") {
    invert(load, node->inputs[0], std::move(data), sink);
    return;
  }
  RIDGE_CHECK(joins_rows(*node), "a load graph with '{}'", node->op->name);
  auto at = data.begin();
  for (ValueId part : node->inputs) {
    auto end = at + load.graph.shape(part).elements();
    invert(load, part, std::vector<float>(at, end), sink);
    at = end;
  }
}

}  // namespace

void load_parameters(const LoadGraph& load, const TensorSource& source, Store& store) {
  for (const auto& [name, value] : load.stored) {
    const Type& type = load.graph.type(value);
    store.require(name, type);
    std::vector<float> data = evaluate(load, value, source);
    RIDGE_CHECK(static_cast<int64_t>(data.size()) == type.shape.elements(), "'{}' has {} elements",
                name, data.size());
    if (is_narrow(type.dtype)) {
      std::vector<uint16_t> bits(data.size());
      std::transform(data.begin(), data.end(), bits.begin(),
                     [&](float each) { return narrowed(each, type.dtype); });
      store.write(name, bits.data(), static_cast<int64_t>(bits.size() * 2));
    } else {
      RIDGE_CHECK(type.dtype == DType::kF32, "'{}' is stored as {}", name, type.str());
      store.write(name, data.data(), static_cast<int64_t>(data.size() * 4));
    }
  }
}

void load_stored(const LoadGraph& load, const StoredSource& source, Store& store) {
  store.reserve(reserve_bytes(load, source));
  const std::vector<StoredValue> values = in_file_order(load, source);
  ReadAhead::Parts parts;
  for (const StoredValue& each : values)
    parts.insert(parts.end(), each.sources.begin(), each.sources.end());
  ReadAhead ahead(std::move(parts), source.expect);
  for (const auto& [name, value, sources] : values) {
    const Type& type = load.graph.type(value);
    const Node* node = load.graph.producer(value);
    if (is_written_in_runs(load, value, source)) {
      RIDGE_CHECK(!store.has(name), "'{}' is stored already", name);
      RIDGE_CHECK(node == nullptr || load.graph.producer(node->inputs[0]) == nullptr,
                  "'{}' is packed last", name);
      write_in_runs(sources.front(), source, ahead, type, store.require(name, type));
      continue;
    }
    if (node == nullptr) {
      store.adopt(name, type, sources.front());
    } else {
      store.require(name, type);
      const int64_t written = write_rows(load, value, type.dtype, source, store, name, 0);
      RIDGE_CHECK(written == storage_bytes(type.dtype, type.shape.elements()),
                  "'{}' is {}, {} bytes were written", name, type.str(), written);
      for (std::span<const std::byte> part : sources) source.release(part);
    }
    for (std::span<const std::byte> part : sources) ahead.advance(std::ssize(part));
  }
}

void load_random_weights(const LoadGraph& load, Store& store) {
  // Not a power of two, so that the rows of a matrix differ.
  constexpr size_t kRun = (size_t{1} << 21) - 9;
  std::vector<float> floats(kRun), ones(kRun, 1.0f);
  Random(1).fill_normal(floats, 0.02f);
  std::vector<uint16_t> bits(kRun);
  std::transform(floats.begin(), floats.end(), bits.begin(), float_to_bf16);
  for (const auto& [name, value] : load.stored) {
    const Type& type = load.graph.type(value);
    bool is_narrow = type.dtype == DType::kBF16;
    RIDGE_CHECK(is_narrow || type.dtype == DType::kF32, "'{}' is stored as {}", name, type.str());
    const void* run = is_narrow                ? static_cast<const void*>(bits.data())
                      : type.shape.rank() == 1 ? ones.data()
                                               : floats.data();
    store.require(name, type);
    int64_t bytes = storage_bytes(type.dtype, type.shape.elements()),
            most = storage_bytes(type.dtype, static_cast<int64_t>(kRun));
    for (int64_t begin = 0; begin < bytes; begin += most)
      store.write_part(name, begin, run, std::min(most, bytes - begin));
  }
}

void save_parameters(const LoadGraph& load, const Store& store, const TensorSink& sink) {
  save_states(load, store, "", sink);
}

void save_states(const LoadGraph& load,
                 const Store& store,
                 std::string_view suffix,
                 const TensorSink& sink) {
  for (const auto& [name, value] : load.stored) {
    // A parameter that is stored in two types is saved from its fp32 form.
    const std::string state = name + std::string(suffix);
    if (load.graph.type(value).dtype == DType::kF32 && store.has(state))
      invert(load, value, store.read_floats(state), sink);
  }
}

void load_states(const LoadGraph& load,
                 const TensorSource& source,
                 std::string_view suffix,
                 Store& store) {
  for (const auto& [name, value] : load.stored) {
    const std::string state = name + std::string(suffix);
    if (load.graph.type(value).dtype != DType::kF32 || !store.has(state)) continue;
    const std::vector<float> data = evaluate(load, value, source);
    store.write(state, data.data(), static_cast<int64_t>(data.size() * 4));
  }
}

}  // namespace ridge::runtime
