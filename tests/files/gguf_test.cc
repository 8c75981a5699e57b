// SPDX-License-Identifier: Apache-2.0
// GGUF files: gguf-py's file (tests/data/files), the fetched models, and hand-made headers.
#include <cstring>
#include <limits>

#include "base/block_formats.h"
#include "files/gguf_file.h"
#include "files/gguf_writer.h"
#include "files/scratch.h"

namespace ridge::files {
namespace {

std::vector<TensorSource> sources_of(const TensorTable& table) {
  std::vector<TensorSource> sources;
  for (const FileTensor& tensor : table.all()) sources.push_back(source_of(tensor));
  return sources;
}

// Builds a GGUF header piece by piece, including invalid ones.
class HeaderText {
 public:
  HeaderText(uint64_t tensors, uint64_t entries) {
    put(kGgufMagic).put(uint32_t{3}).put(tensors).put(entries);
  }
  template <typename T>
  HeaderText& put(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  HeaderText& put_string(std::string_view value) {
    put(static_cast<uint64_t>(value.size()));
    text_ += value;
    return *this;
  }
  HeaderText& put_tensor(std::string_view name,
                         std::vector<uint64_t> dims,
                         uint32_t type,
                         uint64_t offset) {
    put_string(name).put(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) put(dim);
    return put(type).put(offset);
  }
  HeaderText& pad(size_t data_bytes) {
    text_.append((32 - text_.size() % 32) % 32 + data_bytes, '\0');
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void expect_refused(const HeaderText& header, const std::string& part) {
  const std::string text = header.text() + std::string(64, '\0');
  expect_error([&] { GgufFile::parse(bytes_of(text), "file"); }, ExitCode::kBadFile, part);
}

TEST(Gguf, ReadsEveryMetadataTypeOfTheReference) {
  const auto file = GgufFile::open(test_data("files/all_types.gguf_sample"));
  const GgufMetadata& metadata = file.metadata();
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(metadata.string("general.architecture"), "sample");
  EXPECT_EQ(metadata.integer("n.u8"), 200);
  EXPECT_EQ(metadata.integer("n.i8"), -100);
  EXPECT_EQ(metadata.integer("n.u16"), 60000);
  EXPECT_EQ(metadata.integer("n.i16"), -30000);
  EXPECT_EQ(metadata.integer("n.u32"), 4000000000);
  EXPECT_EQ(metadata.integer("n.i32"), -2000000000);
  EXPECT_EQ(metadata.integer("n.i64"), -(int64_t{1} << 62));
  EXPECT_EQ(metadata.describe(*metadata.find("n.u64")), "9223372036854775813");
  expect_error([&] { metadata.integer("n.u64"); }, ExitCode::kBadFile, "9223372036854775813");
  EXPECT_EQ(metadata.real("n.f32"), static_cast<double>(0.1f));
  EXPECT_EQ(metadata.real("n.f64"), 0.1);
  EXPECT_EQ(metadata.real("n.i8"), -100.0);
  EXPECT_TRUE(metadata.boolean("b.yes"));
  EXPECT_FALSE(metadata.boolean("b.no"));
  EXPECT_EQ(metadata.string("s.text"), "h\u00e9llo \"world\"");
  EXPECT_EQ(metadata.string("s.empty_text"), "");
  EXPECT_EQ(metadata.integers("a.i32"), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(metadata.reals("a.f32"), (std::vector<float>{0.5f, -1.25f}));
  EXPECT_EQ(metadata.strings("a.strings"),
            (std::vector<std::string_view>{"a", "bc", "", "\u4f60"}));
  EXPECT_EQ(metadata.describe(*metadata.find("a.bools")), "bool[2] true, false");
  EXPECT_EQ(metadata.describe(*metadata.find("a.nested")), "array[2] i32[2] 1, 2, i32[1] 3");
  EXPECT_EQ(metadata.describe(*metadata.find("a.i32"), 2), "i32[3] 1, -2, ...");
  EXPECT_EQ(metadata.elements(*metadata.find("a.nested"))[1].count, 1u);
  EXPECT_EQ(metadata.keys().front(), "general.architecture");
}

TEST(Gguf, GettersNameTheKey) {
  const auto file = GgufFile::open(test_data("files/all_types.gguf_sample"));
  const GgufMetadata& metadata = file.metadata();
  const auto refused = [&](const std::function<void()>& get, const std::string& part) {
    expect_error(get, ExitCode::kBadFile, part);
  };
  refused([&] { metadata.integer("no.such"); }, "key \"no.such\": expected in the metadata");
  refused([&] { metadata.integer("s.text"); }, "key \"s.text\": expected an integer, found string");
  refused([&] { metadata.integer("n.f32"); }, "expected an integer, found f32");
  refused([&] { metadata.integer("b.yes"); }, "expected an integer, found bool");
  refused(
      [&] {
        metadata.integer("n.u8", {0, 199});
      },
      "expected an integer from 0 to 199, found 200");
  refused([&] { metadata.integer_or("n.u8", 1, {201, 300}); }, "from 201 to 300");
  refused([&] { metadata.integer_or("s.text", 1); }, "expected an integer");
  refused([&] { metadata.real("s.text"); }, "key \"s.text\": expected a number");
  refused([&] { metadata.boolean("n.u8"); }, "key \"n.u8\": expected a bool");
  refused([&] { metadata.string("n.u8"); }, "key \"n.u8\": expected a string");
  refused([&] { metadata.strings("a.i32"); }, "expected an array of strings, found i32");
  refused([&] { metadata.integers("n.u8"); }, "expected an array, found u8");
  refused([&] { metadata.integers("a.f32"); }, "expected an array of integers, found f32");
  refused([&] { metadata.reals("a.i32"); }, "expected an array of f32 or f64");
  EXPECT_EQ(metadata.integer_or("no.such", 7), 7);
  EXPECT_EQ(metadata.real_or("no.such", 0.5), 0.5);
  EXPECT_EQ(metadata.string_or("no.such", "x"), "x");
  EXPECT_TRUE(metadata.boolean_or("no.such", true));
}

TEST(Gguf, RefusesNumbersThatAreNone) {
  const ScratchFolder folder;
  GgufWriter writer;
  writer.set("nan", std::numeric_limits<float>::quiet_NaN());
  writer.set("inf", std::numeric_limits<double>::infinity());
  const std::vector<float> scores = {0.0f, std::numeric_limits<float>::quiet_NaN()};
  writer.set("scores", GgufValue::list(std::span<const float>(scores)));
  writer.write(folder / "x", {});
  const auto file = GgufFile::open(folder / "x");
  expect_error([&] { file.metadata().real("nan"); }, ExitCode::kBadFile,
               "key \"nan\": expected a finite number");
  expect_error([&] { file.metadata().real("inf"); }, ExitCode::kBadFile, "finite");
  expect_error([&] { file.metadata().reals("scores"); }, ExitCode::kBadFile,
               "element 1 is not a number");
}

TEST(Gguf, ReadsEveryTensorTypeOfTheReference) {
  const auto file = GgufFile::open(test_data("files/all_types.gguf_sample"));
  const auto name_of = [](DType dtype) { return ggml_type_name(*ggml_number(dtype)); };
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kI8, DType::kI16,
                      DType::kI32, DType::kI64})
    EXPECT_EQ(file.tensors().at("plain." + name_of(dtype), Shape{2, 3}).dtype, dtype);
  for (DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0,
                      DType::kQ2_K, DType::kQ3_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K}) {
    const std::string name = name_of(dtype);
    const FileTensor& tensor =
        file.tensors().at("block." + name, Shape{3, info(dtype).elements_per_block});
    EXPECT_EQ(tensor.dtype, dtype);
  }
  const FileTensor& four = file.tensors().at("four", Shape{1, 2, 3, 4});
  std::vector<float> values(24);
  dequantize(four.dtype, four.bytes, values);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], static_cast<float>(i));
}

TEST(Gguf, WritesTheReferencesBytes) {
  const ScratchFolder folder;
  const auto path = test_data("files/all_types.gguf_sample");
  const auto file = GgufFile::open(path);
  GgufWriter writer;
  writer.set_all(file.metadata());
  writer.write(folder / "x", sources_of(file.tensors()));
  EXPECT_TRUE(contents(folder / "x") == contents(path));
}

TEST(Gguf, ValuesHaveTheirExactTypes) {
  const ScratchFolder folder;
  GgufWriter writer;
  writer.set("u8", uint8_t{1});
  writer.set("i8", int8_t{-1});
  writer.set("u16", uint16_t{2});
  writer.set("i16", int16_t{-2});
  writer.set("u32", uint32_t{3});
  writer.set("i32", int32_t{-3});
  writer.set("u64", uint64_t{4});
  writer.set("i64", int64_t{-4});
  writer.set("f32", 0.5f);
  writer.set("f64", -0.5);
  writer.set("bool", true);
  writer.set("string", "first");
  writer.set("string", "second");  // replaces the value at the same place
  const std::vector<std::string> words = {"a", "b"};
  const std::vector<int32_t> numbers = {5, -6};
  writer.set("strings", GgufValue::list(std::span<const std::string>(words)));
  const std::vector<GgufValue> rows(3, GgufValue::list(std::span<const int32_t>(numbers)));
  writer.set("rows", GgufValue::nested(rows));
  writer.write(folder / "x", {});
  const auto file = GgufFile::open(folder / "x");
  for (const std::string_view key : file.metadata().keys()) {
    if (key != "strings" && key != "rows") {
      EXPECT_EQ(name(file.metadata().find(key)->type), key);
    }
  }
  EXPECT_EQ(file.metadata().string("string"), "second");
  EXPECT_EQ(file.metadata().keys().size(), 14u);
  EXPECT_EQ(file.metadata().strings("strings"), (std::vector<std::string_view>{"a", "b"}));
  EXPECT_EQ(file.metadata().describe(*file.metadata().find("rows"), 1),
            "array[3] i32[2] 5, ..., ...");
}

TEST(Gguf, HonoursTheAlignment) {
  const ScratchFolder folder;
  const std::vector<float> three = {1, 2, 3};
  const auto read = [&] { return bytes_of(three); };
  const std::vector<TensorSource> tensors = {{"a", DType::kF32, Shape{3}, read},
                                             {"b", DType::kF32, Shape{3, 1}, read}};
  for (const uint32_t alignment : {1u, 8u, 32u, 4096u}) {
    GgufWriter writer;
    writer.set(kGgufAlignmentKey, alignment);
    writer.write(folder / "x", tensors);
    const auto file = GgufFile::open(folder / "x");
    EXPECT_EQ(file.alignment_bytes(), alignment);
    EXPECT_EQ(file.header_bytes() % alignment, 0);
    std::vector<float> values(3);
    dequantize(DType::kF32, file.tensors().at("b", Shape{3, 1}).bytes, values);
    EXPECT_EQ(values, three);
  }
  for (const uint32_t alignment : {0u, 24u}) {
    GgufWriter writer;
    writer.set(kGgufAlignmentKey, alignment);
    expect_error([&] { writer.write(folder / "y", tensors); }, ExitCode::kUsage, "power of two");
  }
}

TEST(Gguf, RefusesToWriteWhatTheFormatLacks) {
  const ScratchFolder folder;
  const auto read = [] { return std::span<const std::byte>(); };
  const auto refuses = [&](const std::vector<TensorSource>& tensors, const std::string& reason) {
    expect_error([&] { GgufWriter().write(folder / "x", tensors); }, ExitCode::kUsage, reason);
  };
  refuses({{"", DType::kF32, Shape{0}, read}}, "1 to 63 bytes");
  refuses({{std::string(64, 'n'), DType::kF32, Shape{0}, read}}, "63");
  refuses({{"a", DType::kU8, Shape{0}, read}}, "does not support u8");
  refuses({{"a", DType::kF32, Shape{0, 1, 1, 1, 1}, read}}, "4 dimensions");
  refuses({{"a", DType::kQ4_0, Shape{2, 16}, read}}, "whole q4_0 blocks");
  refuses({{"a", DType::kF32, Shape{0}, read}, {"a", DType::kF32, Shape{0}, read}}, "two tensors");
  expect_error([&] { GgufWriter().set("", 1); }, ExitCode::kUsage, "key of 1 to");
  EXPECT_EQ(folder.count(), 0u);
}

TEST(Gguf, ReadsVersion2) {
  std::string text = contents(test_data("files/all_types.gguf_sample"));
  text[4] = 2;
  EXPECT_EQ(GgufFile::parse(bytes_of(text), "v2").version(), 2u);
}

TEST(Gguf, RefusesBadHeaders) {
  const auto with = [](uint32_t magic, uint32_t version) {
    std::string text(64, '\0');
    std::memcpy(text.data(), &magic, 4);
    std::memcpy(text.data() + 4, &version, 4);
    return text;
  };
  const auto refused = [](const std::string& text, const std::string& part) {
    expect_error([&] { GgufFile::parse(bytes_of(text), "file"); }, ExitCode::kBadFile, part);
  };
  refused("GG", "magic: expected 4 bytes");
  refused(with(0x46554746, 3), "expected the magic \"GGUF\", found \"FGUF\"");
  refused(with(kGgufMagic, 1), "expected version 2 or 3, found 1");
  refused(with(kGgufMagic, 4), "found 4");
  refused(with(kGgufMagic, 3u << 24), "big endian");
  expect_refused(HeaderText(UINT64_MAX, 0), "tensor count says 18446744073709551615");
  expect_refused(HeaderText(0, UINT64_MAX), "metadata count says 18446744073709551615");
  expect_refused(HeaderText(4, 0), "tensor count says 4");
  const std::string many = HeaderText(uint64_t{1} << 19, 0).text() + std::string(25 << 19, '\0');
  refused(many, "tensor count: expected at most 262144, found 524288");
  const std::string keys = HeaderText(0, uint64_t{1} << 17).text() + std::string(14 << 17, '\0');
  refused(keys, "metadata count: expected at most 65536, found 131072");
}

TEST(Gguf, RefusesBadMetadata) {
  const auto entry = [](uint64_t entries = 1) { return HeaderText(0, entries); };
  const auto u32 = [](GgufType type) { return static_cast<uint32_t>(type); };
  expect_refused(entry().put_string(""), "key of 1 to 65535 bytes, found 0");
  expect_refused(entry().put(UINT64_MAX), "metadata entry 0: key says 18446744073709551615");
  expect_refused(entry().put_string("k").put(13u), "key \"k\": type: unknown metadata type 13");
  expect_refused(entry().put_string("k\x01\xff").put(99u), "key \"k\\x01\\xff\"");
  expect_refused(entry().put_string("k").put(u32(GgufType::kBool)).put(uint8_t{2}),
                 "bool of 0 or 1, found 2");
  expect_refused(entry().put_string("k").put(u32(GgufType::kString)).put(UINT64_MAX),
                 "string says");
  expect_refused(entry().put_string("k").put(u32(GgufType::kArray)).put(13u).put(uint64_t{0}),
                 "array element type: unknown metadata type 13");
  for (const auto& [type, count] :
       std::vector<std::pair<GgufType, uint64_t>>{{GgufType::kU8, 65},
                                                  {GgufType::kF64, 9},
                                                  {GgufType::kString, 9},
                                                  {GgufType::kArray, 6},
                                                  {GgufType::kU64, uint64_t{1} << 61},
                                                  {GgufType::kString, UINT64_MAX}})
    expect_refused(entry().put_string("k").put(u32(GgufType::kArray)).put(u32(type)).put(count),
                   "array length says");
  HeaderText deep = entry();
  deep.put_string("k").put(u32(GgufType::kArray));
  for (int i = 0; i < 1000; ++i) deep.put(u32(GgufType::kArray)).put(uint64_t{1});
  expect_refused(deep, "nested deeper than 4");
  expect_refused(entry(2)
                     .put_string("k")
                     .put(u32(GgufType::kU8))
                     .put(uint8_t{1})
                     .put_string("k")
                     .put(u32(GgufType::kU8))
                     .put(uint8_t{1}),
                 "the key appears twice");
  for (const uint32_t alignment : {0u, 3u, 1u << 21})
    expect_refused(entry().put_string(kGgufAlignmentKey).put(u32(GgufType::kU32)).put(alignment),
                   "key \"general.alignment\": expected");
}

TEST(Gguf, RefusesBadTensors) {
  const auto one = [](std::vector<uint64_t> dims, uint32_t type, uint64_t offset = 0) {
    return HeaderText(1, 0).put_tensor("t", dims, type, offset).pad(0);
  };
  expect_refused(HeaderText(1, 0).put_tensor("", {1}, 0, 0), "name of 1 to 64 bytes, found 0");
  expect_refused(HeaderText(1, 0).put_tensor(std::string(65, 'n'), {1}, 0, 0), "found 65");
  expect_refused(one({1, 1, 1, 1, 1}, 0), "rank: expected at most 4, found 5");
  expect_refused(one({UINT64_MAX}, 0), "dimension 0: 18446744073709551615");
  expect_refused(one({1ull << 32, 1ull << 31}, 0), "63 bits");
  expect_refused(one({0, 1ull << 32, 1ull << 32}, 0), "63 bits");
  expect_refused(one({1ull << 62}, 0), "bytes exceed 63 bits");
  expect_refused(one({32}, 20), "IQ4_NL is not supported");
  expect_refused(one({32}, 4), "type 4 is not supported");
  expect_refused(one({32}, UINT32_MAX), "type 4294967295 is not supported");
  expect_refused(one({16, 2}, 2), "rows of whole q4_0 blocks (32 elements), found shape [2,16]");
  expect_refused(one({128, 2}, 12), "rows of whole q4_k blocks");
  expect_refused(one({}, 2), "rows of whole q4_0 blocks");
  expect_refused(one({1}, 0, 4), "offset: expected a multiple of 32, found 4");
  expect_refused(one({1}, 0, 64),
                 "data of tensor \"t\": expected 4 bytes at offset 128, the file has 128 bytes");
  expect_refused(one({17}, 0), "data of tensor \"t\": expected 68 bytes");
  expect_refused(one({1}, 0, UINT64_MAX - 31), "data of tensor");
  expect_refused(HeaderText(2, 0).put_tensor("t", {1}, 0, 0).put_tensor("t", {1}, 0, 32).pad(0),
                 "appears twice");
  expect_refused(HeaderText(2, 0).put_tensor("a", {9}, 0, 0).put_tensor("b", {1}, 0, 32).pad(0),
                 "tensor \"b\": offset 32 overlaps tensor \"a\", which ends at 36");
  expect_refused(HeaderText(2, 0).put_tensor("a", {1}, 0, 0).put_tensor("b", {1}, 0, 0).pad(0),
                 "overlaps");
}

TEST(Gguf, TakesHolesEmptyTensorsAndScalars) {
  HeaderText header(3, 0);
  header.put_tensor("a", {1}, 0, 32)
      .put_tensor("none", {0, 5}, 0, 32)
      .put_tensor("scalar", {}, 0, 0)
      .pad(64);
  const auto file = GgufFile::parse(bytes_of(header.text()), "file");
  EXPECT_EQ(file.tensors().at("a", Shape{1}).bytes.size(), 4u);
  EXPECT_EQ(file.tensors().at("none", Shape{5, 0}).bytes.size(), 0u);
  EXPECT_EQ(file.tensors().at("scalar", Shape{}).bytes.size(), 4u);
  const HeaderText none(0, 0);  // nothing after the header, not even padding
  EXPECT_TRUE(GgufFile::parse(bytes_of(none.text()), "file").tensors().all().empty());
}

// Sum over the fp32 words w_i of w_i x (i mod 65521 + 1), modulo 2^64.
uint64_t checksum(std::span<const float> values) {
  uint64_t sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t word = 0;
    std::memcpy(&word, &values[i], sizeof(word));
    sum += word * (i % 65521 + 1);
  }
  return sum;
}

struct RealTensor {
  const char* name;
  DType dtype;
  Shape shape;
  uint64_t checksum;  // gguf-py's dequantization has it
};

void expect_real_tensors(const GgufFile& file, const std::vector<RealTensor>& expected) {
  for (const RealTensor& row : expected) {
    const FileTensor& tensor = file.tensors().at(row.name, row.shape);
    EXPECT_EQ(tensor.dtype, row.dtype) << row.name;
    std::vector<float> values(static_cast<size_t>(row.shape.elements()));
    dequantize(tensor.dtype, tensor.bytes, values);
    EXPECT_EQ(checksum(values), row.checksum) << row.name;
  }
}

TEST(Gguf, ReadsGemma3_270m) {
  const auto path = fetched_model("gemma-3-270m-q4_k_m.gguf");
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << path << " is not fetched (tools/fetch_models.sh)";
  const auto file = GgufFile::open(path);
  EXPECT_EQ(file.metadata().string("general.architecture"), "gemma3");
  EXPECT_EQ(file.tensors().elements(), 268'098'176);
  EXPECT_EQ(file.metadata().strings("tokenizer.ggml.tokens").size(), 262144u);
  EXPECT_EQ(file.metadata().reals("tokenizer.ggml.scores").size(), 262144u);
  expect_real_tensors(
      file, {
                {"output_norm.weight", DType::kF32, Shape{640}, 224719185936384u},
                {"blk.0.attn_k.weight", DType::kQ5_0, Shape{256, 640}, 9731093144965599232u},
                {"blk.0.attn_output.weight", DType::kQ4_K, Shape{640, 1024}, 7920876468473473216u},
                {"blk.0.attn_v.weight", DType::kQ8_0, Shape{256, 640}, 10040148212650822080u},
                {"blk.0.ffn_down.weight", DType::kQ6_K, Shape{640, 2048}, 14456625426317357354u},
            });
}

TEST(Gguf, ReadsSmolLM2_135m) {
  const auto path = fetched_model("SmolLM2-135M-Instruct.Q4_1.gguf");
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << path << " is not fetched (tools/fetch_models.sh)";
  const auto file = GgufFile::open(path);
  EXPECT_EQ(file.metadata().string("general.architecture"), "llama");
  EXPECT_EQ(file.metadata().integer("llama.block_count"), 30);
  EXPECT_EQ(file.tensors().elements(), 134'515'008);
  EXPECT_EQ(file.metadata().strings("tokenizer.ggml.tokens").size(), 49152u);
  expect_real_tensors(
      file, {
                {"blk.0.attn_norm.weight", DType::kF32, Shape{576}, 337150749638656u},
                {"blk.0.ffn_down.weight", DType::kQ4_1, Shape{576, 1536}, 4656683148584215552u},
            });
}

}  // namespace
}  // namespace ridge::files
