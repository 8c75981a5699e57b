// SPDX-License-Identifier: Apache-2.0
// Documents of texts and JSON Lines, against nlohmann's parser, and faulty files.
#include "text/documents.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "files/scratch.h"
#include "text/text_fixtures.h"

namespace ridge::text {
namespace {

class DocumentsTest : public ::testing::Test {
 protected:
  std::vector<std::string> lines(const std::string& bytes, int64_t place = 0) {
    files::write_plain(folder_ / "f.jsonl", bytes);
    files::ByteStream stream(folder_ / "f.jsonl");
    std::vector<std::string> documents;
    places_.clear();
    read_json_lines(stream, "text", {place, false}, [&](const TextPart& part) {
      if (part.begins) documents.emplace_back();
      documents.back() += part.text;
      if (part.ends) places_.push_back(part.place);
    });
    return documents;
  }
  void expect_fault(const std::string& bytes, const std::string& part) {
    files::expect_error([&] { lines(bytes); }, ExitCode::kBadFile, part);
  }
  files::ScratchFolder folder_;
  std::vector<int64_t> places_;  // where documents end
};

TEST_F(DocumentsTest, LinesAreParsedAsJson) {
  const std::vector<std::string> texts = {
      "", "plain", "a \"quoted\" \\ text\n\twith\r\b\f/ controls", "Grüße, 世界, 🙂",
      std::string(700'000, 'x') + "é" + std::string(700'000, 'y')};
  std::string bytes;
  for (const std::string& text : texts) {
    nlohmann::json line = {{"id", {1, -2.5e-3, nullptr, true}},
                           {"meta", {{"text", "not this"}, {"deep", {{{"a", "}\""}}}}}},
                           {"text", text}};
    bytes += line.dump(-1, ' ', text.size() < 100) + (text.empty() ? "\r\n" : "\n");
    bytes += "  \n";  // an empty line
  }
  EXPECT_EQ(lines(bytes), texts);
  ASSERT_EQ(places_.size(), texts.size());
  EXPECT_EQ(bytes[static_cast<size_t>(places_[1]) - 1], '\n');
  const std::vector<std::string> rest(texts.begin() + 2, texts.end());
  EXPECT_EQ(lines(bytes, places_[1]), rest);
  EXPECT_EQ(lines(R"( {"text" : "\u00e9\ud83d\ude42\/" , "b":[ ] ,"c":{ }} )"),
            std::vector<std::string>{"é🙂/"});
}

TEST_F(DocumentsTest, FaultsNameTheLine) {
  expect_fault("{\"text\": \"a\"}\n{\"text\": 3}\n", "line 2, byte 23: expected a string");
  expect_fault("{\"text\": \"a\"}\n{\"other\": 3}\n", "line 2: expected the key \"text\"");
  expect_fault("{}\n", "line 1: expected the key \"text\"");
  expect_fault("[1]\n", "line 1, byte 0: expected '{'");
  expect_fault("{\"text\": \"a\"} x\n", "expected the end of the line");
  expect_fault("{\"text\": \"a\"", "found the end of the file");
  expect_fault("{\"text\": \"a\nb\"}\n", "no control character");
  expect_fault("{\"text\": \"a\", \"text\": \"b\"}\n", "once");
  expect_fault("{\"text\": \"\\ud83d\"}\n", "surrogate");
  expect_fault("{\"text\": \"\\ude42\"}\n", "surrogate");
  expect_fault("{\"text\": \"\\x\"}\n", "escape sequence");
  expect_fault("{\"text\": \"\\u00g0\"}\n", "hexadecimal");
  for (const char* value : {"01", "1.", "1e", "-", "tru", "nul", "+1", "[1,]", "{\"a\"}", ","})
    expect_fault(fmt::format("{{\"a\": {}, \"text\": \"b\"}}\n", value), "line 1");
  expect_fault("{\"a\": " + std::string(1000, '['), "nested");
  expect_fault("{\"text\": \"a\xff\"}\n", "expected UTF-8, found the byte 0xff at byte 11");
}

// A run that ended with a text begins after its only document, were it of one byte.
TEST_F(DocumentsTest, ATextThatHasEndedHasNoOtherDocument) {
  files::write_plain(folder_ / "x.txt", "x");
  const auto parts = [&](const DocumentStart& start) {
    files::ByteStream stream(folder_ / "x.txt");
    std::vector<TextPart> made;
    read_text(stream, start, [&](const TextPart& part) { made.push_back(part); });
    return made;
  };
  EXPECT_TRUE(parts({1, false}).empty());
  ASSERT_EQ(parts({1, true}).size(), 1u);  // the end of one that goes on
  EXPECT_FALSE(parts({1, true})[0].begins);
  EXPECT_TRUE(parts({1, true})[0].ends);
}

TEST_F(DocumentsTest, ATextIsOneDocumentOfValidCharacters) {
  std::string text;
  while (text.size() < 1'500'000) text += "aé世🙂";  // characters across the ends of pieces
  files::write_plain(folder_ / "f", text);
  for (const int64_t place : {0, 10}) {
    files::ByteStream stream(folder_ / "f");
    std::string read;
    int begins = 0, ends = 0;
    read_text(stream, {place, place > 0}, [&](const TextPart& part) {
      read += part.text;
      begins += part.begins;
      ends += part.ends;
      EXPECT_EQ(part.place, place + std::ssize(read));
    });
    EXPECT_TRUE(read == text.substr(static_cast<size_t>(place)));
    EXPECT_EQ(begins, place == 0 ? 1 : 0);
    EXPECT_EQ(ends, 1);
  }
  auto fault = [&](const std::string& bytes, const std::string& part) {
    files::write_plain(folder_ / "f", bytes);
    files::expect_error(
        [&] {
          files::ByteStream stream(folder_ / "f");
          read_text(stream, {}, [](const TextPart&) {});
        },
        ExitCode::kBadFile, part);
  };
  fault(text + "\xff", fmt::format("found the byte 0xff at byte {}", text.size()));
  fault("ab\xe4\xb8", "found the byte 0xe4 at byte 2");
}

}  // namespace
}  // namespace ridge::text
