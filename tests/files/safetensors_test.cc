// SPDX-License-Identifier: Apache-2.0
// Safetensors files: the reference implementation's (tests/data/files, tests/data/models) and
// hand-made headers.
#include "files/safetensors.h"

#include <cstring>

#include "files/json.h"
#include "files/scratch.h"

namespace ridge::files {
namespace {

std::string file_text(const std::string& header, const std::string& data = {}) {
  const uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + header + data;
}

// The header of one tensor "t" with these fields, followed by eight bytes of data.
std::string one_tensor(const std::string& fields) {
  return file_text("{\"t\":{" + fields + "}}", "01234567");
}

void expect_refused(const std::string& text, const std::string& part) {
  expect_error([&] { SafetensorsFile::parse(bytes_of(text), "file"); }, ExitCode::kBadFile, part);
}

std::vector<TensorSource> sources_of(const TensorTable& table) {
  std::vector<TensorSource> sources;
  for (const FileTensor& tensor : table.all()) sources.push_back(source_of(tensor));
  return sources;
}

TEST(Safetensors, ReadsEveryDtypeOfTheReference) {
  const auto file = SafetensorsFile::open(test_data("files/all_dtypes.safetensors"));
  EXPECT_EQ(file.metadata(), (TextMap{{"format", "pt"}}));
  EXPECT_EQ(file.tensors().all().size(), 18u);
  for (const auto& [name, dtype] :
       std::vector<std::pair<std::string, DType>>{{"float64", DType::kF64},
                                                  {"float32", DType::kF32},
                                                  {"float16", DType::kF16},
                                                  {"bfloat16", DType::kBF16},
                                                  {"float8_e4m3fn", DType::kF8E4M3},
                                                  {"float8_e5m2", DType::kF8E5M2},
                                                  {"int64", DType::kI64},
                                                  {"int32", DType::kI32},
                                                  {"int16", DType::kI16},
                                                  {"int8", DType::kI8},
                                                  {"uint64", DType::kU64},
                                                  {"uint32", DType::kU32},
                                                  {"uint16", DType::kU16},
                                                  {"uint8", DType::kU8},
                                                  {"bool", DType::kBool}}) {
    const FileTensor& tensor = file.tensors().at("t." + name, Shape{2, 3});
    EXPECT_EQ(tensor.dtype, dtype) << name;
    EXPECT_EQ(static_cast<int64_t>(tensor.bytes.size()), storage_bytes(dtype, 6));
  }
  float scalar = 0;
  std::memcpy(&scalar, file.tensors().at("scalar", Shape{}).bytes.data(), sizeof(scalar));
  EXPECT_EQ(scalar, 2.5f);
  EXPECT_EQ(file.tensors().at("empty", Shape{0, 3}).bytes.size(), 0u);
  EXPECT_NE(file.tensors().find("quote\"\\\u00e9\n"), nullptr);
}

TEST(Safetensors, WritesTheReferencesBytes) {
  const ScratchFolder folder;
  const auto path = test_data("files/all_dtypes.safetensors");
  const auto file = SafetensorsFile::open(path);
  auto sources = sources_of(file.tensors());
  std::reverse(sources.begin(), sources.end());  // the order of the sources does not matter
  write_safetensors(folder / "x", sources);
  EXPECT_TRUE(contents(folder / "x") == contents(path));
}

TEST(Safetensors, RoundTripsTransformersFiles) {
  const ScratchFolder folder;
  for (const char* name :
       {"models/llama_fp32/model.safetensors", "models/gemma3_bf16/model.safetensors"}) {
    write_safetensors(folder / "x", sources_of(SafetensorsFile::open(test_data(name)).tensors()));
    EXPECT_TRUE(contents(folder / "x") == contents(test_data(name))) << name;
  }
}

TEST(Safetensors, WritesNoTensorsAndNoMetadata) {
  const ScratchFolder folder;
  write_safetensors(folder / "x", {}, {});
  EXPECT_EQ(contents(folder / "x"), file_text("{}      "));
  EXPECT_TRUE(SafetensorsFile::open(folder / "x").tensors().all().empty());
}

TEST(Safetensors, OpensAFolderAndItsShards) {
  const auto file = SafetensorsFile::open(test_data("models/llama3_bf16_sharded"));
  EXPECT_EQ(file.mappings().size(), 5u);
  const auto index =
      read_json(test_data("models/llama3_bf16_sharded/model.safetensors.index.json"));
  EXPECT_EQ(file.tensors().all().size(), index["weight_map"].size());
  EXPECT_EQ(file.tensors().bytes(), index["metadata"]["total_size"].get<int64_t>());
  EXPECT_EQ(file.tensors().elements(), index["metadata"]["total_parameters"].get<int64_t>());
  EXPECT_EQ(SafetensorsFile::open(test_data("models/llama_fp32")).mappings().size(), 1u);
}

TEST(Safetensors, WritesShardsThatReadBack) {
  const ScratchFolder folder;
  const auto source = SafetensorsFile::open(test_data("models/llama3_bf16_sharded"));
  write_safetensors_folder(folder.path(), sources_of(source.tensors()), 200'000);
  EXPECT_GT(folder.count(), 4u);
  const auto copy = SafetensorsFile::open(folder.path());
  ASSERT_EQ(copy.tensors().all().size(), source.tensors().all().size());
  for (const FileTensor& tensor : source.tensors().all()) {
    const FileTensor& other = copy.tensors().at(tensor.name, tensor.shape);
    EXPECT_EQ(other.dtype, tensor.dtype);
    EXPECT_TRUE(std::ranges::equal(other.bytes, tensor.bytes)) << tensor.name;
  }
  const ScratchFolder single;
  write_safetensors_folder(single.path(), sources_of(source.tensors()), 1 << 30);
  EXPECT_EQ(single.count(), 1u);
  expect_error([&] { write_safetensors_folder(single.path(), sources_of(source.tensors()), 1000); },
               ExitCode::kUsage, "must be removed first");
  EXPECT_EQ(single.count(), 1u);
}

TEST(Safetensors, RefusesToWriteWhatTheFormatLacks) {
  const ScratchFolder folder;
  const std::vector<std::byte> bytes(18);
  const auto read = [&] { return std::span<const std::byte>(bytes); };
  const auto refuses = [&](const std::vector<TensorSource>& tensors, const std::string& reason) {
    expect_error([&] { write_safetensors(folder / "x", tensors); }, ExitCode::kUsage, reason);
  };
  refuses({{"q", DType::kQ4_0, Shape{32}, read}}, "does not support q4_0");
  refuses({{"", DType::kU8, Shape{18}, read}}, "not a valid tensor name");
  refuses({{"__metadata__", DType::kU8, Shape{18}, read}}, "not a valid tensor name");
  refuses({{"\xff", DType::kU8, Shape{18}, read}}, "UTF-8");
  refuses({{"a", DType::kU8, Shape{18}, read}, {"a", DType::kU8, Shape{18}, read}}, "two tensors");
  const std::vector<TensorSource> short_shape = {{"a", DType::kU8, Shape{17}, read}};
  EXPECT_THROW(write_safetensors(folder / "x", short_shape), InternalError);  // a bug of the caller
  EXPECT_EQ(folder.count(), 0u);
}

TEST(Safetensors, RefusesBadHeaders) {
  expect_refused("", "at least 8 bytes");
  expect_refused("1234567", "at least 8 bytes");
  expect_refused(std::string(8, '\xff'), "header's length");
  expect_refused(std::string("\x10\0\0\0\0\0\0\0{}", 10), "header's length says 16 bytes");
  expect_refused(file_text(""), "begin with");
  expect_refused(file_text(" {}"), "begin with");
  expect_refused(file_text("{"), "not valid JSON");
  expect_refused(file_text("{}x"), "not valid JSON");
  expect_refused(file_text("{\"a\":{\"b\":{\"c\":{}}}}"), "levels deep");
  expect_refused(file_text("{}", "data"), "end at byte 0 of the data, but the data has 4 bytes");
  expect_refused(file_text("{\"__metadata__\":{\"a\":1}}"), "__metadata__.a] expected a string");
  expect_refused(file_text("{\"__metadata__\":[]}"), "expected an object");
}

TEST(Safetensors, RefusesBadEntries) {
  const std::string good = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  EXPECT_NO_THROW(SafetensorsFile::parse(bytes_of(one_tensor(good)), "file"));
  EXPECT_NO_THROW(SafetensorsFile::parse(bytes_of(one_tensor(good + R"(,"later":1)")), "file"));
  expect_refused(file_text("{\"t\":7}"), "expected an object");
  expect_refused(one_tensor(R"("shape":[2],"data_offsets":[0,8])"), "the key \"dtype\" is missing");
  expect_refused(one_tensor(R"("dtype":"F32","data_offsets":[0,8])"),
                 "the key \"shape\" is missing");
  expect_refused(one_tensor(R"("dtype":"F32","shape":[2])"), "the key \"data_offsets\" is missing");
  expect_refused(one_tensor(R"("dtype":7,"shape":[2],"data_offsets":[0,8])"),
                 "dtype] expected a string");
  expect_refused(one_tensor(R"("dtype":"F4","shape":[2],"data_offsets":[0,8])"),
                 "dtype] expected a supported element type, found \"F4\"");
  expect_refused(one_tensor(R"("dtype":"F32","shape":2,"data_offsets":[0,8])"),
                 "shape] expected a list");
  expect_refused(one_tensor(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"),
                 "shape[0]] expected an integer >= 0");
  expect_refused(one_tensor(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"),
                 "shape[0]] expected an integer >= 0");
  expect_refused(one_tensor(R"("dtype":"F32","shape":[1,1,1,1,1,1,2],"data_offsets":[0,8])"),
                 "6 dimensions");
  expect_refused(
      one_tensor(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8])"),
      "63 bits");
  expect_refused(
      one_tensor(R"("dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0])"),
      "63 bits");
  expect_refused(one_tensor(R"("dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,8])"),
                 "63 bits");
  expect_refused(one_tensor(R"("dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,8])"),
                 "shape[0]] expected an integer >= 0");
  expect_refused(one_tensor(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"), "12 bytes");
  expect_refused(one_tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,9])"), "two numbers");
  expect_refused(one_tensor(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"),
                 "a begin before the end");
  expect_refused(one_tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,16])"),
                 "an end within 8 bytes of data, found 16");
  expect_refused(one_tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), "end at byte 4");
  expect_refused(one_tensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), "hole");
  expect_refused(file_text(R"({"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x"),
                 "expected a name");
  const auto entry = [](const std::string& name, const std::string& offsets) {
    return "\"" + name + R"(":{"dtype":"U8","shape":[2],"data_offsets":)" + offsets + "}";
  };
  expect_refused(file_text("{" + entry("a", "[0,2]") + "," + entry("b", "[1,3]") + "}", "abc"),
                 "overlap");
  expect_refused(file_text("{" + entry("a", "[0,2]") + "," + entry("a", "[2,4]") + "}", "abcd"),
                 "twice");
  expect_refused(file_text("{" + entry("a", "[0,2]") + "," + entry("b", "[3,5]") + "}", "abcde"),
                 "hole");
}

TEST(Safetensors, RefusesBadIndexes) {
  const ScratchFolder folder;
  const auto index = folder / "model.safetensors.index.json";
  const auto refused = [&](const std::string& text, const std::string& part) {
    write_plain(index, text);
    expect_error([&] { SafetensorsFile::open(folder.path()); }, ExitCode::kBadFile, part);
  };
  expect_error([&] { SafetensorsFile::open(folder.path()); }, ExitCode::kBadFile, "in the folder");
  refused("[]", "expected an object");
  refused("{}", "expected the index of a model's safetensors files, found no \"weight_map\"");
  refused(R"({"weight_map":{"t":1}})", "weight_map.t] expected a string");
  refused(R"({"weight_map":{"t":"missing.safetensors"}})", "No such file");
  for (const char* name :
       {"../x", "/etc/passwd", "..", ".", "", "a\\\\b", "a\\u0000b", "a\\u001bb", "a\\u202eb"})
    refused(std::string(R"({"weight_map":{"t":")") + name + "\"}}", "next to the index");
  refused(R"({"weight_map":{"t":")" + std::string(256, 'a') + "\"}}", "next to the index");
  refused(R"({"weight_map":{"\u001b[2J":1}})", R"(weight_map."\x1b[2J"] expected a string)");
  write_safetensors(folder / "s", {});
  refused(R"({"weight_map":{"t":"s"}})", "expected a tensor \"t\"");
}

}  // namespace
}  // namespace ridge::files
