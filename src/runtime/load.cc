// SPDX-License-Identifier: Apache-2.0
// Evaluates and inverts the few ops that a load graph may contain.
#include "runtime/load.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>

#include "base/arena.h"
#include "base/bf16.h"
#include "base/block_formats.h"
#include "base/error.h"
#include "base/fragment_tiles.h"
#include "base/random.h"
#include "base/repacked_tiles.h"
#include "runtime/read_ahead.h"

namespace ridge::runtime {
namespace {

bool joins_rows(const Node& node) {
  return node.op->name == "concat" && node.attrs.integer("axis") == 0;
}

// A tensor of the file, or the part of one that a rank has: rows, or columns of each row.
struct FilePart {
  std::string name;
  Type whole;
  int64_t first_row = 0, rows = 1, first_column = 0, columns = 1;

  bool has_whole_rows() const { return columns == whole.shape.back(); }
  int64_t bytes_of(int64_t elements) const { return storage_bytes(whole.dtype, elements); }
};

// None if other nodes make the value.
std::optional<FilePart> file_part(const LoadGraph& load, ValueId value) {
  const Node* node = load.graph.producer(value);
  if (node != nullptr && node->op->name != "slice") return std::nullopt;
  const ValueId tensor = node == nullptr ? value : node->inputs[0];
  if (load.graph.producer(tensor) != nullptr) return std::nullopt;
  FilePart part{load.graph.value(tensor).name, load.graph.type(tensor)};
  const Shape& own = load.graph.shape(value);
  const bool cuts_columns = node != nullptr && node->attrs.integer("axis") + 1 == own.rank();
  part.columns = own.rank() == 0 ? 1 : own.back();
  part.rows = own.elements() / std::max<int64_t>(part.columns, 1);
  if (node != nullptr)
    (cuts_columns ? part.first_column : part.first_row) = node->attrs.integer("begin");
  return part;
}

// The bytes of the file from the first to the last of a part.
std::span<const std::byte> bytes_around(const FilePart& part, std::span<const std::byte> tensor) {
  const int64_t width = part.bytes_of(part.whole.shape.rank() == 0 ? 1 : part.whole.shape.back());
  const int64_t begin = part.first_row * width + part.bytes_of(part.first_column);
  const int64_t length = (part.rows - 1) * width + part.bytes_of(part.columns);
  return tensor.subspan(static_cast<size_t>(begin), static_cast<size_t>(length));
}

// A part's own bytes: those of the file, or `joined`, into which its columns are copied.
std::span<const std::byte> own_bytes(const FilePart& part,
                                     std::span<const std::byte> around,
                                     std::vector<std::byte>& joined) {
  if (part.rows == 1 || part.has_whole_rows()) return around;
  const auto width = static_cast<size_t>(part.bytes_of(part.whole.shape.back())),
             own = static_cast<size_t>(part.bytes_of(part.columns));
  joined.resize(static_cast<size_t>(part.rows) * own);
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < part.rows; ++row)
    std::memcpy(joined.data() + static_cast<size_t>(row) * own,
                around.data() + static_cast<size_t>(row) * width, own);
  return joined;
}

std::vector<float> own_floats(const FilePart& part, std::vector<float> tensor) {
  std::vector<float> own;
  const int64_t width = part.whole.shape.elements() == 0 ? 0 : part.whole.shape.back();
  for (int64_t row = part.first_row; row < part.first_row + part.rows; ++row) {
    const auto begin = tensor.begin() + row * width + part.first_column;
    own.insert(own.end(), begin, begin + part.columns);
  }
  return own;
}

// A rank's part of a flat tensor, and the zeros that make the parts equal.
bool is_part(const Graph& graph, const Node& node) {
  return node.op->name == "slice" && graph.producer(node.inputs[0]) != nullptr;
}
bool is_zeros(const Node& node) { return node.op->name == "fill" && node.attrs.real("value") == 0; }

std::vector<float> evaluate(const LoadGraph& load, ValueId value, const TensorSource& source) {
  const Node* node = load.graph.producer(value);
  if (const std::optional<FilePart> part = file_part(load, value)) {
    std::vector<float> tensor = source(part->name, part->whole);
    return node == nullptr ? tensor : own_floats(*part, std::move(tensor));
  }
  if (node->op->name == "cast" || node->op->name == "reshape")
    return evaluate(load, node->inputs[0], source);
  if (is_zeros(*node))
    return std::vector<float>(static_cast<size_t>(load.graph.shape(value).elements()));
  if (is_part(load.graph, *node)) {
    const std::vector<float> whole = evaluate(load, node->inputs[0], source);
    return {whole.begin() + node->attrs.integer("begin"),
            whole.begin() + node->attrs.integer("end")};
  }
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

// Packs blocks into fragment tiles. Threads share the rows of tiles.
std::vector<std::byte> pack_bytes(std::span<const std::byte> bytes, const Type& to) {
  const int64_t in = to.shape[1], step = storage_bytes(to.dtype, kFragmentRows * in);
  std::vector<std::byte> made(bytes.size());
#pragma omp parallel for schedule(static)
  for (int64_t begin = 0; begin < std::ssize(bytes); begin += step)
    pack_fragments(to.dtype, in,
                   bytes.subspan(static_cast<size_t>(begin), static_cast<size_t>(step)),
                   {made.data() + begin, static_cast<size_t>(step)});
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
  if (const std::optional<FilePart> part = file_part(load, value)) {
    const Type& type = load.graph.type(value);
    std::vector<std::byte> joined, made;
    std::span<const std::byte> bytes =
        own_bytes(*part, bytes_around(*part, source.bytes(part->name)), joined);
    if (type.dtype != to)
      bytes = made = is_fragments(to) ? pack_bytes(bytes, {to, type.shape})
                                      : cast_bytes(type.dtype, bytes, {to, type.shape});
    store.write_part(name, begin, bytes.data(), std::ssize(bytes));
    return begin + std::ssize(bytes);
  }
  const bool is_cast = node->op->name == "cast";
  RIDGE_CHECK(is_cast || joins_rows(*node), "a load graph with '{}'", node->op->name);
  for (ValueId input : node->inputs) {
    const Node* maker = load.graph.producer(input);
    RIDGE_CHECK(!is_cast || maker == nullptr || maker->op->name != "cast", "a cast of a cast");
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
  if (const std::optional<FilePart> part = file_part(load, value))
    return parts.push_back(bytes_around(*part, source.bytes(part->name)));
  for (ValueId input : load.graph.producer(value)->inputs)
    append_sources(load, input, source, parts);
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

// The same for any part. Copied columns are nothing that the source could release.
void write_part_in_runs(const FilePart& part,
                        std::span<const std::byte> around,
                        const StoredSource& source,
                        ReadAhead& ahead,
                        const Type& type,
                        std::byte* to) {
  std::vector<std::byte> joined;
  const std::span<const std::byte> own = own_bytes(part, around, joined);
  if (joined.empty()) return write_in_runs(own, source, ahead, type, to);
  StoredSource copied = source;
  copied.release = [](std::span<const std::byte>) {};
  write_in_runs(own, copied, ahead, type, to);
  source.release(around);
  ahead.advance(std::ssize(around) - std::ssize(own));
}

// Numbers that each tensor of a file without weights repeats from its first element on.
struct RepeatedRun {
  std::span<const std::byte> bytes;
  DType dtype;

  // Elements of the tensor from `at` on.
  void copy(int64_t at, std::span<std::byte> to) const {
    auto from = static_cast<size_t>(storage_bytes(dtype, at)) % bytes.size();
    while (!to.empty()) {
      const auto some = bytes.subspan(from, std::min(to.size(), bytes.size() - from));
      std::ranges::copy(some, to.begin());
      to = to.subspan(some.size());
      from = 0;
    }
  }
};

// As write_rows.
int64_t write_repeated(const LoadGraph& load,
                       ValueId value,
                       const RepeatedRun& run,
                       Store& store,
                       const std::string& name,
                       int64_t begin) {
  const std::optional<FilePart> part = file_part(load, value);
  if (!part) {
    for (const ValueId input : load.graph.producer(value)->inputs)
      begin = write_repeated(load, input, run, store, name, begin);
    return begin;
  }
  const int64_t row_bytes = storage_bytes(run.dtype, part->columns),
                width = part->whole.shape.back();
  if (part->has_whole_rows()) {
    // They lie one after the other, so that the numbers repeat there too: the device copies them.
    const int64_t bytes = part->rows * row_bytes, period = std::ssize(run.bytes);
    std::vector<std::byte> once(static_cast<size_t>(std::min(bytes, period)));
    run.copy(part->first_row * width, once);
    store.write_part(name, begin, once.data(), std::ssize(once));
    for (int64_t at = period; at < bytes; at += period)
      store.copy({name, begin}, {name, begin + at}, std::min(period, bytes - at));
    return begin + bytes;
  }
  constexpr int64_t kMostBytes = int64_t{64} << 20;
  const int64_t most_rows = std::max<int64_t>(kMostBytes / row_bytes, 1);
  std::vector<std::byte> rows(static_cast<size_t>(std::min(most_rows, part->rows) * row_bytes));
  for (int64_t first = 0; first < part->rows; first += most_rows) {
    const int64_t count = std::min(most_rows, part->rows - first);
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < count; ++row)
      run.copy((part->first_row + first + row) * width + part->first_column,
               std::span(rows).subspan(static_cast<size_t>(row * row_bytes),
                                       static_cast<size_t>(row_bytes)));
    store.write_part(name, begin, rows.data(), count * row_bytes);
    begin += count * row_bytes;
  }
  return begin;
}

// The whole tensor from the parts of all ranks, one after the other, in which a part is rows or
// columns of it. Ranks beyond the number of parts have the same.
std::vector<float> joined_parts(const FilePart& part, const std::vector<float>& all) {
  std::vector<float> whole(static_cast<size_t>(part.whole.shape.elements()));
  const int64_t width = part.whole.shape.back(), own = part.rows * part.columns;
  const int64_t parts = std::ssize(whole) / own, sharing = std::ssize(all) / std::ssize(whole);
  for (int64_t i = 0; i < parts; ++i)
    for (int64_t row = 0; row < part.rows; ++row) {
      const auto from = all.begin() + i * sharing * own + row * part.columns;
      const int64_t to =
          part.has_whole_rows() ? i * own + row * width : row * width + i * part.columns;
      std::copy_n(from, part.columns, whole.begin() + to);
    }
  return whole;
}

void invert(const LoadGraph& load,
            ValueId value,
            std::vector<float> data,
            const TensorSink& sink,
            const RankParts& join) {
  const Node* node = load.graph.producer(value);
  if (node == nullptr) {
    sink(load.graph.value(value).name, load.graph.type(value), std::move(data));
    return;
  }
  if (is_zeros(*node)) return;
  if (node->op->name == "cast" || node->op->name == "reshape")
    return invert(load, node->inputs[0], std::move(data), sink, join);
  if (is_part(load.graph, *node)) {
    if (join.of_states) return invert(load, node->inputs[0], join.of_states(data), sink, join);
    ValueId first = node->inputs[0];
    while (load.graph.producer(first) != nullptr) first = load.graph.producer(first)->inputs[0];
    return sink(load.graph.value(first).name, load.graph.type(value), std::move(data));
  }
  if (const std::optional<FilePart> part = file_part(load, value)) {
    if (!join.of_model) return sink(part->name, load.graph.type(value), std::move(data));
    return sink(part->name, part->whole, joined_parts(*part, join.of_model(data)));
  }
  RIDGE_CHECK(joins_rows(*node), "a load graph with '{}'", node->op->name);
  auto at = data.begin();
  for (ValueId part : node->inputs) {
    auto end = at + load.graph.shape(part).elements();
    invert(load, part, std::vector<float>(at, end), sink, join);
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
      const std::optional<FilePart> part =
          file_part(load, node == nullptr ? value : node->inputs[0]);
      RIDGE_CHECK(part, "'{}' is packed last", name);
      write_part_in_runs(*part, sources.front(), source, ahead, type, store.require(name, type));
      continue;
    }
    if (node == nullptr) {
      source.keep(sources.front());
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
    const bool is_narrow = type.dtype == DType::kBF16;
    RIDGE_CHECK(is_narrow || type.dtype == DType::kF32, "'{}' is stored as {}", name, type.str());
    const std::span<const std::byte> run = is_narrow ? std::as_bytes(std::span(bits))
                                           : type.shape.rank() == 1
                                               ? std::as_bytes(std::span(ones))
                                               : std::as_bytes(std::span(floats));
    store.require(name, type);
    write_repeated(load, value, {run, type.dtype}, store, name, 0);
  }
}

void save_parameters(const LoadGraph& load,
                     const Store& store,
                     const TensorSink& sink,
                     const RankParts& join) {
  save_states(load, store, "", sink, join);
}

void save_states(const LoadGraph& load,
                 const Store& store,
                 std::string_view suffix,
                 const TensorSink& sink,
                 const RankParts& join) {
  for (const auto& [name, value] : load.stored) {
    // A parameter that is stored in two types is saved from its fp32 form.
    const std::string state = name + std::string(suffix);
    if (load.graph.type(value).dtype == DType::kF32 && store.has(state))
      invert(load, value, store.read_floats(state), sink, join);
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
