// SPDX-License-Identifier: Apache-2.0
// Long lists of JSON, read element by element, from plain and gzip files.
#include "files/json_stream.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "files/scratch.h"

namespace ridge::files {
namespace {

using nlohmann::json;

struct Read {
  json others;
  std::vector<json> elements;
};

Read read(BlockReader reader, const JsonStreamLimits& limits = {}) {
  Read result;
  result.others = stream_json(
      reader, "list", [&](json& element) { result.elements.push_back(element); }, limits);
  return result;
}
Read read(const std::string& text, const JsonStreamLimits& limits = {}) {
  return read(BlockReader(text, "text"), limits);
}

void expect_refused(const std::string& text,
                    const std::string& part,
                    const JsonStreamLimits& limits = {}) {
  try {
    read(text, limits);
    ADD_FAILURE() << text.substr(0, 100);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadFile);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

void write_gzip(const std::filesystem::path& path, const std::string& text) {
  gzFile file = ::gzopen(path.c_str(), "wb");
  ASSERT_EQ(::gzwrite(file, text.data(), static_cast<unsigned>(text.size())),
            static_cast<int>(text.size()));
  ::gzclose(file);
}

TEST(JsonStream, HandsOverElementsAndReturnsTheRest) {
  const Read found = read(
      R"({"a": {"list": [1]}, "list": [1, "x", null, [2, {"list": []}], {"b": {}}], "c": [3, []]})");
  EXPECT_EQ(
      found.elements,
      json::parse(R"([1, "x", null, [2, {"list": []}], {"b": {}}])").get<std::vector<json>>());
  EXPECT_EQ(found.others, json::parse(R"({"a": {"list": [1]}, "c": [3, []]})"));
}

TEST(JsonStream, ADocumentMayBeTheList) {
  EXPECT_EQ(read("[1, [2], {}]").elements, json::parse("[1, [2], {}]").get<std::vector<json>>());
  EXPECT_TRUE(read("[]").elements.empty());
  EXPECT_TRUE(read("{}").elements.empty());
}

// Writes the parts of elements as JSON again.
class Text : public JsonParts {
 public:
  void begin_object() override { open("{", "}"); }
  void begin_array() override { open("[", "]"); }
  void end() override {
    text += closing.back();
    closing.pop_back();
    needs_comma = true;
  }
  void key(std::string& name) override {
    value(json(name).dump() + ":");
    needs_comma = false;
  }
  void string(std::string& whole) override { value(json(whole).dump()); }
  void integer(int64_t number) override { value(std::to_string(number)); }
  void real(double number) override { value(json(number).dump()); }
  void boolean(bool is_true) override { value(is_true ? "true" : "false"); }
  void null() override { value("null"); }
  void complete() override {
    elements.push_back(json::parse(text));
    text.clear();
    needs_comma = false;
  }

  std::vector<json> elements;

 private:
  void open(const char* begin, const char* last) {
    value(begin);
    closing.emplace_back(last);
    needs_comma = false;
  }
  void value(const std::string& written) {
    text += (needs_comma ? "," : "") + written;
    needs_comma = true;
  }

  std::string text;
  std::vector<std::string> closing;
  bool needs_comma = false;
};

TEST(JsonStream, PartsAreThoseOfTheElements) {
  for (
      const char* text :
      {R"({"a": {"list": [1]}, "list": [1, -2, "x", null, [2, {"list": []}], {"b": {}}], "c": [3]})",
       R"([true, false, 1.5, 18446744073709551615, {"list": [[], {}], "k": "\u00e9\n"}])", "[]"}) {
    BlockReader reader(text, "text");
    Text parts;
    const json others = stream_json_parts(reader, "list", parts);
    const Read built = read(text);
    EXPECT_EQ(others, built.others) << text;
    EXPECT_EQ(parts.elements, built.elements) << text;
  }
}

TEST(JsonStream, PartsAreWithinTheLimits) {
  const auto expect_bad = [](const std::string& text, const JsonStreamLimits& limits) {
    BlockReader reader(text, "text");
    Text parts;
    EXPECT_THROW(stream_json_parts(reader, "list", parts, limits), Error) << text.substr(0, 100);
  };
  expect_bad("[" + std::string(100'000, '['), {});
  expect_bad("[1, 2, 3]", {.max_elements = 2});
  const std::string whole = R"({"a": 1, "list": [{"b": [1, 2]}, 3]})";
  for (size_t size = 0; size < whole.size(); ++size) expect_bad(whole.substr(0, size), {});
}

TEST(JsonStream, OfTwoEqualKeysTheLastCounts) {
  EXPECT_EQ(read(R"({"list": [{"a": 1, "a": 2}]})").elements[0], json({{"a", 2}}));
}

TEST(JsonStream, ReadsFilesOfManyBlocksPlainAndInGzip) {
  ScratchFolder folder;
  std::string text = R"({"list": [)";
  for (int i = 0; i < 100'000; ++i) text += std::to_string(i) + ", ";
  text += R"(-1], "last": true})";
  write_plain(folder / "plain", text);
  write_gzip(folder / "packed", text);
  for (const char* name : {"plain", "packed"}) {
    const Read found = read(BlockReader(folder / name));
    ASSERT_EQ(found.elements.size(), 100'001u) << name;
    for (size_t i = 0; i < 100'000; ++i) ASSERT_EQ(found.elements[i], i) << name;
    EXPECT_EQ(found.others, json({{"last", true}})) << name;
  }
}

TEST(JsonStream, RefusesGzipThatEndsEarlyOrIsDamaged) {
  ScratchFolder folder;
  write_gzip(folder / "whole", R"({"list": [1, 2, 3, 4, 5, 6, 7, 8, 9]})");
  const std::string whole = contents(folder / "whole");
  for (size_t size = 1; size < whole.size(); ++size) {
    write_plain(folder / "part", whole.substr(0, size));
    EXPECT_THROW(read(BlockReader(folder / "part")), Error) << size;
  }
  std::string damaged = whole;
  damaged[whole.size() - 6] ^= 1;  // the checksum
  write_plain(folder / "part", damaged);
  EXPECT_THROW(read(BlockReader(folder / "part")), Error);
}

TEST(JsonStream, RefusesWhatIsNoRegularFile) {
  ScratchFolder folder;
  EXPECT_THROW(BlockReader{folder.path()}, Error);
  EXPECT_THROW(BlockReader{folder / "missing"}, Error);
}

TEST(JsonStream, RefusesTextThatIsNotJson) {
  const std::string text = R"({"a": 1, "list": [{"b": [1, 2]}, 3]})";
  for (size_t size = 0; size < text.size(); ++size)
    expect_refused(text.substr(0, size), size == 0 ? "" : "not valid JSON at byte");
  expect_refused(text + "x", "not valid JSON");
  expect_refused("3", "expected a JSON object or a list");
  expect_refused(R"({"list": [NaN]})", "not valid JSON");
  expect_refused(R"({"list": [1e999]})", "not valid JSON");
}

TEST(JsonStream, RefusesWhatExceedsALimit) {
  expect_refused(R"({"list": [)" + std::string(100'000, '['), "levels deep");
  expect_refused(R"({"other": )" + std::string(100'000, '['), "levels deep");
  expect_refused("[1, 2, 3]", "at most 2 elements", {.max_elements = 2});
  expect_refused(R"({"a": 1, "b": 2})", "at most 1 keys", {.max_keys = 1});
  expect_refused("[[1, 2, 3]]", "at most 3 JSON values", {.element = {.max_values = 3}});
  ScratchFolder folder;
  write_plain(folder / "long", "[\"" + std::string(1 << 20, 'x') + "\"]");
  EXPECT_EQ(read(BlockReader(folder / "long")).elements.size(), 1u);
  EXPECT_THROW(read(BlockReader(folder / "long"), {.max_element_bytes = 1000}), Error);
}

}  // namespace
}  // namespace ridge::files
