// SPDX-License-Identifier: Apache-2.0
// Data sets of token ids: encoding streams, shards, going on, and damage.
#include "text/token_set.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cstring>

#include "files/scratch.h"
#include "text/text_fixtures.h"
#include "text/token_set_writer.h"
#include "text/token_stream.h"

namespace ridge::text {
namespace {

// Passes a text on in parts of `size` bytes.
void feed(TokenStream& stream, const std::string& text, size_t size, int64_t begin = 0) {
  for (auto at = static_cast<size_t>(begin); at < text.size(); at += size) {
    const std::string_view part = std::string_view(text).substr(at, size);
    stream.add({part, at == 0, false, static_cast<int64_t>(at + part.size()), true});
  }
  stream.add({"", text.empty(), true, std::ssize(text), true});
}

TEST(TokenStream, EqualsOneCallOfEncode) {
  std::string text;
  while (text.size() < 5'000'000) text += read_data("corpus.en") + "<|endoftext|>";
  const Tokenizer tokenizer(gpt2_spec());
  const EncodeOptions options{.parse_special = true, .add_bos = true, .add_eos = true};
  const std::vector<int32_t> expected = tokenizer.encode(text, options);
  const int before = omp_get_max_threads();
  for (const int threads : {1, 2}) {
    omp_set_num_threads(threads);
    std::vector<int32_t> ids;
    std::vector<std::pair<int64_t, size_t>> places;
    int begins = 0, ends = 0;
    TokenStream stream(tokenizer, options, [&](const TokenPart& part) {
      ids.insert(ids.end(), part.ids.begin(), part.ids.end());
      begins += part.begins;
      ends += part.ends;
      places.emplace_back(part.place, ids.size());
    });
    feed(stream, text, 100'003);
    stream.flush();
    EXPECT_TRUE(ids == expected);
    EXPECT_EQ(begins, 1);
    EXPECT_EQ(ends, 1);
    // A stream that begins at a place continues the ids there.
    ASSERT_GT(places.size(), 10u);
    const auto [place, count] = places[7];
    std::vector<int32_t> rest;
    TokenStream second(tokenizer, options, [&](const TokenPart& part) {
      EXPECT_FALSE(part.begins);
      rest.insert(rest.end(), part.ids.begin(), part.ids.end());
    });
    feed(second, text, 100'003, place);
    second.flush();
    EXPECT_TRUE(rest == std::vector<int32_t>(expected.begin() + static_cast<std::ptrdiff_t>(count),
                                             expected.end()));
  }
  omp_set_num_threads(before);
}

TEST(TokenStream, ManyDocumentsKeepTheirEnds) {
  const Tokenizer tokenizer(gpt2_spec());
  const EncodeOptions options{.add_bos = true, .add_eos = true};
  std::vector<std::vector<int32_t>> documents;
  TokenStream stream(tokenizer, options, [&](const TokenPart& part) {
    if (part.begins) documents.emplace_back();
    documents.back().insert(documents.back().end(), part.ids.begin(), part.ids.end());
  });
  std::vector<std::string> texts;
  for (int i = 0; i < 5000; ++i) texts.push_back(std::string(static_cast<size_t>(i % 97), 'a'));
  for (const std::string& text : texts) stream.add({text, true, true, 0, false});
  stream.flush();
  ASSERT_EQ(documents.size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i)
    ASSERT_EQ(documents[i], tokenizer.encode(texts[i], options)) << i;
}

TEST(TokenStream, ATextWithoutCutsIsCutAtALineOrACharacter) {
  const Tokenizer tokenizer(gpt2_spec());
  for (const std::string unit : {"\xc3\xa9", "ab\n"}) {
    std::string text;
    while (text.size() < 3 * TokenStream::kLongestBytes) text += unit;
    std::vector<int32_t> ids;
    size_t parts = 0;
    TokenStream stream(tokenizer, {}, [&](const TokenPart& part) {
      const std::string piece = tokenizer.decode(part.ids);
      EXPECT_LE(piece.size(), TokenStream::kLongestBytes);
      EXPECT_EQ(piece.size() % unit.size(), 0u);
      ids.insert(ids.end(), part.ids.begin(), part.ids.end());
      ++parts;
    });
    feed(stream, text, 100'003);
    stream.flush();
    EXPECT_GE(parts, 3u);
    EXPECT_TRUE(tokenizer.decode(ids) == text);
  }
}

// A set of two shards and three documents, of which one passes from one shard to the other.
class TokenSetTest : public ::testing::Test {
 protected:
  static constexpr int32_t kVocabulary = 5000;
  static constexpr int64_t kIds = 1'500'000;

  static std::vector<int32_t> ids() {
    std::vector<int32_t> all(kIds);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i * 7919 % kVocabulary);
    return all;
  }
  TokenSetIndex make(IdWidth width) const {
    TokenSetIndex index;
    index.vocab_size = kVocabulary;
    index.width = width;
    index.origin = {{"from", "a test"}};
    TokenSetWriter writer(folder_.path(), index);
    const std::vector<int32_t> all = ids();
    const std::span<const int32_t> span(all);
    writer.add(span.first(10), true);
    writer.add(span.subspan(10, 999'990), true);
    writer.end_shard({{"input", 0}});
    writer.add(span.subspan(1'000'000, 5), false);
    writer.add(span.subspan(1'000'005), true);
    writer.finish();
    return writer.index();
  }
  void expect_fault(const std::string& part) const {
    files::expect_error(
        [&] {
          TokenSet set = TokenSet::open(folder_.path(), 0);
          set.check({});
        },
        ExitCode::kBadFile, part);
  }
  void damage(const std::string& name, size_t at) const {
    std::string bytes = files::contents(folder_ / name);
    bytes[at] ^= 1;
    files::write_plain(folder_ / name, bytes);
  }
  files::ScratchFolder folder_;
};

TEST_F(TokenSetTest, ReadsWhatWasWritten) {
  for (const IdWidth width : {IdWidth::k16, IdWidth::k32}) {
    make(width);
    TokenSet set = TokenSet::open(folder_.path(), 0);
    EXPECT_EQ(set.size(), kIds);
    EXPECT_EQ(set.vocab_size(), kVocabulary);
    EXPECT_EQ(set.document_starts(), (std::vector<int64_t>{0, 10, 1'000'005}));
    const std::vector<int32_t> all = ids();
    for (const int64_t first : {int64_t{0}, int64_t{524'287}, int64_t{999'998}, kIds - 40}) {
      std::vector<int32_t> read(40);
      set.read(first, read);
      EXPECT_TRUE(std::equal(read.begin(), read.end(), all.begin() + first)) << first;
    }
    EXPECT_EQ(set.check({}), kIds * static_cast<int64_t>(width));
  }
}

TEST_F(TokenSetTest, AnIncompleteSetIsRefusedAndGoesOn) {
  const TokenSetIndex whole = make(IdWidth::k16);
  TokenSetIndex part = whole;
  part.is_complete = false;
  part.shards.pop_back();
  files::write_plain(folder_ / kTokenSetIndex, to_json(part));
  expect_fault("the data set is incomplete");
  const std::vector<int32_t> all = ids();
  TokenSetWriter writer(folder_.path(), read_index(folder_.path()));
  writer.add(std::span(all).subspan(1'000'000, 5), false);
  writer.add(std::span(all).subspan(1'000'005), true);
  writer.finish();
  EXPECT_EQ(to_json(writer.index()), to_json(whole));
  EXPECT_EQ(files::contents(folder_ / kTokenSetIndex), to_json(whole));
}

TEST_F(TokenSetTest, DamageIsNoticed) {
  make(IdWidth::k16);
  damage("shard-00000.bin", 1'200'000);
  expect_fault("shard-00000.bin] bytes 1048576 to 2000000: expected the hash");
  // Only what is read is checked.
  TokenSet set = TokenSet::open(folder_.path(), 0);
  std::vector<int32_t> read(10);
  set.read(0, read);
  set.read(1'000'000, read);
  EXPECT_THROW(set.read(600'000, read), Error);
  make(IdWidth::k16);
  damage("shard-00001.documents", 3);
  expect_fault("shard-00001.documents] expected the hash");
  make(IdWidth::k16);
  damage("shard-00001.hashes", 3);
  expect_fault("shard-00001.hashes] expected the hash");
  make(IdWidth::k16);
  std::filesystem::resize_file(folder_ / "shard-00001.bin", 999'998);
  expect_fault("shard-00001.bin] expected 1000000 bytes for 500000 ids, found 999998");
  std::filesystem::remove(folder_ / "shard-00001.bin");
  expect_fault("No such file");
}

TEST_F(TokenSetTest, AFileThatChangesUnderWayIsNoticed) {
  make(IdWidth::k16);
  TokenSet set = TokenSet::open(folder_.path(), 0);
  std::vector<int32_t> read(10);
  set.read(0, read);
  damage("shard-00000.bin", 100);
  files::expect_error([&] { set.read(10, read); }, ExitCode::kBadFile,
                      "the file was changed while it was in use");
}

TEST_F(TokenSetTest, FilesOfOtherPrograms) {
  const std::vector<uint16_t> narrow{7, 65535, 3};
  const auto write = [&](std::string_view head, std::span<const std::byte> ids) {
    files::write_plain(
        folder_ / "f.bin",
        std::string(head) + std::string(reinterpret_cast<const char*>(ids.data()), ids.size()));
  };
  std::vector<int32_t> read(3);
  write("", files::bytes_of(narrow));
  TokenSet::open(folder_ / "f.bin", 65536).read(0, read);
  EXPECT_EQ(read, (std::vector<int32_t>{7, 65535, 3}));
  // llm.c's headers.
  const auto header = [](uint32_t magic, uint32_t version, uint32_t count) {
    std::string text(1024, '\0');
    const uint32_t head[] = {magic, version, count};
    std::memcpy(text.data(), head, sizeof head);
    return text;
  };
  write(header(20240520, 1, 3), files::bytes_of(narrow));
  TokenSet::open(folder_ / "f.bin", 128256).read(0, read);
  EXPECT_EQ(read, (std::vector<int32_t>{7, 65535, 3}));
  write(header(20240801, 7, 3), files::bytes_of(std::vector<uint32_t>{7, 100'000, 3}));
  TokenSet::open(folder_ / "f.bin", 128256).read(0, read);
  EXPECT_EQ(read, (std::vector<int32_t>{7, 100'000, 3}));
  auto fault = [&](const std::string& part) {
    files::expect_error([&] { TokenSet::open(folder_ / "f.bin", 65536).read(0, read); },
                        ExitCode::kBadFile, part);
  };
  write(header(20240520, 2, 3), files::bytes_of(narrow));
  fault("expected version 1 of llm.c's header, found 2");
  write(header(20240520, 1, 4), files::bytes_of(narrow));
  fault("expected the 4 ids of its header, found 3");
  write("x", files::bytes_of(narrow));
  fault("ids of 2 bytes each");
}

TEST_F(TokenSetTest, FaultyIndexes) {
  const TokenSetIndex whole = make(IdWidth::k16);
  const auto expect = [&](const char* pointer, nlohmann::json value, const std::string& part) {
    nlohmann::json index = nlohmann::json::parse(to_json(whole));
    index[nlohmann::json::json_pointer(pointer)] = std::move(value);
    files::write_plain(folder_ / kTokenSetIndex, index.dump());
    expect_fault(part);
  };
  expect("/format", "other", "format");
  expect("/version", 2, "version 1");
  expect("/id_bytes", 3, "2 or 4");
  expect("/ids", 7, "the sum of the shards' ids");
  expect("/shards/0/name", "../x", "the name of a shard");
  expect("/shards/0/ids", -1, "ids");
  expect("/vocab_size", 4000, "expected ids below 4000");
  std::filesystem::remove(folder_ / kTokenSetIndex);
  expect_fault("index.json");
}

}  // namespace
}  // namespace ridge::text
