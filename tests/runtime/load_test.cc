// SPDX-License-Identifier: Apache-2.0
// Load graphs: from a file's tensors to stored parameters and back.
#include "runtime/load.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <map>

#include "backends/cpu/cpu_backend.h"
#include "base/bf16.h"
#include "base/block_formats.h"
#include "base/error.h"
#include "base/repacked_tiles.h"
#include "graph/builder.h"
#include "ops/build.h"
#include "ops/registry.h"

namespace ridge::runtime {
namespace {

using Tensors = std::map<std::string, std::vector<float>>;

class LoadTest : public testing::Test {
 protected:
  ValueId input(const std::string& name, Shape shape) {
    return b.input(name, {DType::kF32, shape});
  }
  void load_all() {
    load_parameters(
        load,
        [&](const std::string& name, const Type& type) {
          EXPECT_EQ(static_cast<int64_t>(file.at(name).size()), type.shape.elements());
          ++reads[name];
          return file.at(name);
        },
        store);
  }
  Tensors save_all() {
    Tensors saved;
    save_parameters(
        load, store, [&](const std::string& name, const Type& type, std::vector<float> data) {
          EXPECT_EQ(static_cast<int64_t>(data.size()), type.shape.elements());
          EXPECT_TRUE(saved.emplace(name, std::move(data)).second) << name << " is saved twice";
        });
    return saved;
  }

  LoadGraph load;
  Builder b{load.graph, ops::table()};
  Tensors file{{"q", {1, 2, 3, 4}}, {"k", {5, 6}}, {"v", {7, 8}}, {"norm", {0.5f, 1.0f / 3}}};
  std::map<std::string, int> reads;
  std::unique_ptr<backends::Backend> backend = backends::cpu::make_cpu_backend({});
  Store store{*backend};
};

TEST_F(LoadTest, StoresTensorsAsTheyAreAndStacked) {
  load.stored["norm"] = input("norm", {2});
  load.stored["qkv"] =
      ops::concat(b, {input("q", {2, 2}), input("k", {1, 2}), input("v", {1, 2})}, 0);
  load_all();
  EXPECT_EQ(store.read_floats("norm"), file.at("norm"));
  EXPECT_EQ(store.read_floats("qkv"), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(save_all(), file);
  for (const auto& [name, count] : reads) EXPECT_EQ(count, 1) << name;
}

TEST_F(LoadTest, SavesWhatTrainingMadeOfThem) {
  load.stored["kv"] = ops::concat(b, {input("k", {1, 2}), input("v", {1, 2})}, 0);
  load_all();
  const float trained[] = {-1, -2, -3, -4};
  store.write("kv", trained, sizeof trained);
  Tensors saved = save_all();
  EXPECT_EQ(saved.at("k"), (std::vector<float>{-1, -2}));
  EXPECT_EQ(saved.at("v"), (std::vector<float>{-3, -4}));
}

// A low-precision copy is loaded from the same tensor as its master, but only the master is saved.
TEST_F(LoadTest, KeepsCopiesBesideTheirMasters) {
  ValueId norm = input("norm", {2});
  load.stored["norm"] = norm;
  load.stored["norm.bf16"] = ops::cast(b, norm, DType::kBF16);
  load_all();
  std::vector<uint16_t> bits(2);
  store.read("norm.bf16", bits.data(), 4);
  EXPECT_EQ(bits, (std::vector<uint16_t>{0x3f00, 0x3eab}));  // 0.5 and 0.33398
  EXPECT_EQ(save_all(), (Tensors{{"norm", file.at("norm")}}));
}

TEST_F(LoadTest, StacksOfStacksComeApart) {
  ValueId kv = ops::concat(b, {input("k", {1, 2}), input("v", {1, 2})}, 0);
  load.stored["qkv"] = ops::concat(b, {input("q", {2, 2}), kv}, 0);
  load_all();
  Tensors want = file;
  want.erase("norm");
  EXPECT_EQ(save_all(), want);
}

TEST_F(LoadTest, RefusesOtherOpsAndOtherSizes) {
  load.stored["norm"] = ops::unary(b, "exp", input("norm", {2}));
  EXPECT_THROW(load_all(), InternalError);
  load.stored.clear();
  load.stored["joined"] = ops::concat(b, {input("k", {1, 2}), input("v", {1, 2})}, 1);
  EXPECT_THROW(load_all(), InternalError);
  load.stored.clear();
  load.stored["norm"] = input("norm", {2});
  EXPECT_THROW(
      load_parameters(
          load, [](const std::string&, const Type&) { return std::vector<float>(3); }, store),
      InternalError);
}

// Blocks are dequantized, rounded and stacked during loading.
TEST_F(LoadTest, UnpacksBlocks) {
  BlockQ8_0 blocks[2] = {{0x3c00, {}}, {0x3800, {}}};  // scales 1 and 1/2
  for (int i = 0; i < 32; ++i) blocks[0].quants[i] = blocks[1].quants[i] = static_cast<int8_t>(i);
  const float plain[32] = {1.0f / 3};
  ValueId packed = b.input("packed", {DType::kQ8_0, {2, 32}});
  load.stored["rows"] = ops::concat(
      b, {ops::cast(b, packed, DType::kBF16), ops::cast(b, input("plain", {1, 32}), DType::kBF16)},
      0);
  load_stored(load,
              {.bytes = [&](const std::string& name) -> std::span<const std::byte> {
                 if (name == "packed") return std::as_bytes(std::span(blocks));
                 return std::as_bytes(std::span(plain));
               },
               .release = [](std::span<const std::byte>) {}},
              store);
  std::vector<uint16_t> bits(96);
  store.read("rows", bits.data(), 192);
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(bf16_to_float(bits[i]), static_cast<float>(i));
    EXPECT_EQ(bf16_to_float(bits[32 + i]), static_cast<float>(i) / 2);
  }
  EXPECT_EQ(bits[64], 0x3eab);
}

// Packs one part at a time and releases each part after use. Several values share the store's
// reserve.
TEST_F(LoadTest, RepacksRows) {
  constexpr int64_t kRows = 16 * 300, kWidth = 512;  // more than one run of 2 MiB
  std::vector<std::byte> large(static_cast<size_t>(storage_bytes(DType::kQ8_0, kRows * kWidth))),
      small(static_cast<size_t>(storage_bytes(DType::kQ4_0, 16 * 64)));
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<std::byte>(i * 31 % 251);
  for (size_t i = 0; i < small.size(); ++i) small[i] = static_cast<std::byte>(i % 7);
  load.stored["large"] =
      ops::cast(b, b.input("large", {DType::kQ8_0, {kRows, kWidth}}), DType::kQ8_0x16);
  load.stored["small"] = ops::cast(b, b.input("small", {DType::kQ4_0, {16, 64}}), DType::kQ4_0x16);
  std::atomic<size_t> released = 0;
  load_stored(load,
              {.bytes = [&](const std::string& name) -> std::span<const std::byte> {
                 return name == "large" ? large : small;
               },
               .release = [&](std::span<const std::byte> part) { released += part.size(); }},
              store);
  EXPECT_EQ(released, large.size() + small.size());
  for (const auto& [name, rows, type, width] :
       {std::tuple{"large", &large, DType::kQ8_0x16, kWidth},
        {"small", &small, DType::kQ4_0x16, int64_t{64}}}) {
    std::vector<std::byte> want(rows->size()), got(rows->size());
    repack_rows(type, width, *rows, want);
    store.read(name, got.data(), static_cast<int64_t>(got.size()));
    EXPECT_EQ(want, got) << name;
  }
  EXPECT_EQ(store.bytes(), static_cast<int64_t>(large.size() + small.size()));
}

// Values that are stored as in the file are used in place or, on request, copied and released.
TEST_F(LoadTest, CopiesWhatItIsAskedTo) {
  constexpr int64_t kElements = (int64_t{5} << 20) / 4 + 3;  // more than two runs
  std::vector<float> values(static_cast<size_t>(kElements));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1021);
  load.stored["x"] = input("x", {kElements});
  const auto bytes = std::as_bytes(std::span(values));
  for (bool copies : {false, true}) {
    Store kept(*backend);
    std::atomic<size_t> released = 0;
    load_stored(load,
                {.bytes = [&](const std::string&) { return bytes; },
                 .release = [&](std::span<const std::byte> part) { released += part.size(); },
                 .copies = copies},
                kept);
    EXPECT_EQ(released, copies ? bytes.size() : 0);
    EXPECT_EQ(kept.read_floats("x"), values);
    values[7] += 1;  // visible, because the bytes are used in place
    EXPECT_EQ(kept.read_floats("x") == values, !copies);
  }
}

// Tensors are read in the order of the file, whatever their names, and announced in that order; all
// but those used in place are released.
TEST_F(LoadTest, ReadsInTheOrderOfTheFile) {
  const std::vector<float> ones(20, 1);
  const auto bytes = std::as_bytes(std::span(ones));
  const std::map<std::string, std::span<const std::byte>> tensors = {
      {"a", bytes.subspan(48, 32)}, {"b", bytes.subspan(16, 32)}, {"c", bytes.subspan(0, 16)}};
  load.stored["joined"] = ops::concat(b, {input("a", {2, 4}), input("b", {2, 4})}, 0);
  load.stored["cast"] = ops::cast(b, input("c", {4}), DType::kBF16);
  std::string expected, released;
  const auto names_of = [&](std::span<const std::byte> part) {
    for (const auto& [name, span] : tensors)
      if (span.data() == part.data() && span.size() == part.size()) return name;
    return std::string("?");
  };
  load_stored(load,
              {.bytes = [&](const std::string& name) { return tensors.at(name); },
               .expect = [&](std::span<const std::byte> part) { expected += names_of(part); },
               .release = [&](std::span<const std::byte> part) { released += names_of(part); }},
              store);
  EXPECT_EQ(expected, "cab");
  EXPECT_EQ(released, "cab");
}

// Made-up weights: matrices that are not constant, and norms of one.
TEST_F(LoadTest, MakesUpWeights) {
  load.stored["norm"] = input("norm", {2});
  load.stored["matrix"] = b.input("matrix", {DType::kBF16, {3, 1000}});
  load_random_weights(load, store);
  EXPECT_EQ(store.read_floats("norm"), (std::vector<float>{1, 1}));
  std::vector<uint16_t> bits(3000);
  store.read("matrix", bits.data(), 6000);
  double squares = 0;
  for (uint16_t each : bits) squares += std::pow(static_cast<double>(bf16_to_float(each)), 2);
  EXPECT_NEAR(std::sqrt(squares / 3000), 0.02, 0.002);
}

// A rank has the same numbers that the whole model has there.
TEST_F(LoadTest, MakesUpTheSameWeightsForPartsOfTensors) {
  const ValueId whole = b.input("matrix", {DType::kBF16, {3000, 1000}});
  load.stored["matrix"] = whole;
  load.stored["rows"] = ops::slice(b, whole, 0, 2000, 3000);
  load.stored["columns"] = ops::slice(b, whole, 1, 250, 750);
  load.stored["joined"] = ops::concat(b, {ops::slice(b, whole, 0, 10, 11), whole}, 0);
  load_random_weights(load, store);
  const auto read = [&](const std::string& name) {
    std::vector<uint16_t> bits(static_cast<size_t>(store.type(name).shape.elements()));
    store.read(name, bits.data(), std::ssize(bits) * 2);
    return bits;
  };
  const auto all = read("matrix"), rows = read("rows"), columns = read("columns"),
             joined = read("joined");
  EXPECT_TRUE(std::equal(rows.begin(), rows.end(), all.begin() + 2'000'000));
  for (const size_t row : {0u, 1u, 2999u})
    EXPECT_TRUE(std::equal(columns.begin() + static_cast<std::ptrdiff_t>(row * 500),
                           columns.begin() + static_cast<std::ptrdiff_t>(row * 500 + 500),
                           all.begin() + static_cast<std::ptrdiff_t>(row * 1000 + 250)));
  EXPECT_TRUE(std::equal(joined.begin(), joined.begin() + 1000, all.begin() + 10'000));
  EXPECT_TRUE(std::equal(all.begin(), all.end(), joined.begin() + 1000));
}

// Rows and columns of tensors as they are, cast, in blocks, and repacked into tiles.
TEST_F(LoadTest, StoresPartsOfTensors) {
  constexpr int64_t kRows = 32, kColumns = 128;
  std::vector<float> floats(kRows * kColumns);
  for (size_t i = 0; i < floats.size(); ++i) floats[i] = static_cast<float>(i % 251) - 125;
  std::vector<std::byte> blocks(
      static_cast<size_t>(storage_bytes(DType::kQ8_0, std::ssize(floats))));
  std::ranges::generate(blocks, [i = 0]() mutable { return static_cast<std::byte>(i++ % 113); });
  const std::map<std::string, std::span<const std::byte>> tensors = {
      {"floats", std::as_bytes(std::span(floats))}, {"blocks", blocks}};
  const ValueId plain = input("floats", {kRows, kColumns}),
                quantized = b.input("blocks", {DType::kQ8_0, {kRows, kColumns}});
  load.stored["rows"] = ops::slice(b, plain, 0, 16, 32);
  load.stored["columns"] = ops::slice(b, plain, 1, 32, 96);
  load.stored["narrow"] = ops::cast(b, ops::slice(b, plain, 1, 32, 96), DType::kBF16);
  load.stored["block_columns"] = ops::slice(b, quantized, 1, 32, 96);
  load.stored["tiles"] = ops::cast(b, ops::slice(b, quantized, 1, 32, 96), DType::kQ8_0x16);
  load_stored(load, {.bytes = [&](const std::string& name) { return tensors.at(name); }}, store);
  const std::vector<float> rows = store.read_floats("rows"), columns = store.read_floats("columns");
  EXPECT_TRUE(std::equal(rows.begin(), rows.end(), floats.begin() + 16 * kColumns));
  std::vector<uint16_t> narrow(kRows * 64);
  store.read("narrow", narrow.data(), std::ssize(narrow) * 2);
  for (size_t i = 0; i < columns.size(); ++i) {
    ASSERT_EQ(columns[i], floats[i / 64 * kColumns + 32 + i % 64]);
    ASSERT_EQ(bf16_to_float(narrow[i]), columns[i]);
  }
  const int64_t row_bytes = storage_bytes(DType::kQ8_0, kColumns),
                own_bytes = storage_bytes(DType::kQ8_0, 64);
  std::vector<std::byte> own, stored(static_cast<size_t>(kRows * own_bytes)), tiles(stored.size());
  for (int64_t row = 0; row < kRows; ++row) {
    const auto begin = blocks.begin() + row * row_bytes + storage_bytes(DType::kQ8_0, 32);
    own.insert(own.end(), begin, begin + own_bytes);
  }
  store.read("block_columns", stored.data(), std::ssize(stored));
  EXPECT_EQ(own, stored);
  repack_rows(DType::kQ8_0x16, 64, own, tiles);
  store.read("tiles", stored.data(), std::ssize(stored));
  EXPECT_EQ(tiles, stored);
}

}  // namespace
}  // namespace ridge::runtime
