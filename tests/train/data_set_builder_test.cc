// SPDX-License-Identifier: Apache-2.0
// Data sets are made of files in shards, go on where they ended, and are described.
#include "train/data_set_builder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "files/scratch.h"

namespace ridge::train {
namespace {

class DataSetBuilderTest : public testing::Test {
 protected:
  DataSetBuilderTest() {
    files::write_plain(folder_ / "a.txt", "One document of a few words.");
    files::write_plain(folder_ / "b.jsonl",
                       "{\"text\": \"two\"}\n{\"text\": \"three words here\"}\n");
    options_.files = {(folder_ / "a.txt").string(), (folder_ / "b.jsonl").string()};
    options_.tokenizer = test_data("models/tokenizers/gpt2");
    options_.out = (folder_ / "set").string();
    options_.shard_tokens = 4;
  }
  record::DataSetSummary build() {
    DataSetBuilder builder(options_);
    begun_ = builder.begin();
    return builder.run([&](int64_t bytes) { progress_ += bytes; });
  }
  record::DataSetContents contents(int64_t shown = 0) {
    text::TokenSet set = text::TokenSet::open(options_.out, 0);
    return describe_data_set(set, options_.out, shown);
  }

  files::ScratchFolder folder_;
  DataSetOptions options_;
  std::optional<DataSetBuilder::Begun> begun_;
  int64_t progress_ = 0;
};

TEST_F(DataSetBuilderTest, ShardsHaveAllDocuments) {
  EXPECT_EQ(DataSetBuilder(options_).input_bytes(), 28 + 45);
  const record::DataSetSummary made = build();
  EXPECT_FALSE(begun_);
  EXPECT_EQ(made.documents, 3);
  EXPECT_EQ(made.id_bytes, 2);
  EXPECT_EQ(made.read_bytes, progress_);
  EXPECT_GT(made.shards, 1);
  const record::DataSetContents found = contents(3);
  EXPECT_EQ(found.ids, made.ids);
  EXPECT_EQ(found.vocab_size, made.vocab_size);
  EXPECT_EQ(std::ssize(found.shards), made.shards);
  EXPECT_EQ(found.documents, 3);
  EXPECT_LE(found.least_ids, found.median_ids);
  EXPECT_LT(found.median_ids, found.most_ids);
  EXPECT_EQ(found.text, "One d");  // the vocabulary of the test is small
  EXPECT_FALSE(found.checked);
  int64_t sum = 0;
  for (const record::DataSetContents::Shard& each : found.shards) sum += each.ids;
  EXPECT_EQ(sum, found.ids);
  EXPECT_NE(found.origin.find("\"shard_tokens\":4"), std::string::npos) << found.origin;
  EXPECT_FALSE(contents().text);
}

// A shard ends with the first part that fills it, were it of a text of one byte.
TEST_F(DataSetBuilderTest, AShardEndsOnceItIsFull) {
  files::write_plain(folder_ / "x.txt", "x");
  options_.files = {(folder_ / "x.txt").string(), (folder_ / "b.jsonl").string()};
  const auto shards = [&](int64_t tokens) {
    options_.shard_tokens = tokens;
    options_.out = (folder_ / fmt::format("of-{}", tokens)).string();
    build();
    std::vector<int64_t> ids;
    for (const record::DataSetContents::Shard& each : contents().shards) ids.push_back(each.ids);
    return ids;
  };
  const std::vector<int64_t> documents = shards(1);
  ASSERT_EQ(documents.size(), 3u);
  EXPECT_EQ(documents[0], 2);  // the letter and the end
  EXPECT_EQ(shards(2), documents);
  EXPECT_EQ(shards(3), (std::vector<int64_t>{2 + documents[1], documents[2]}));
  EXPECT_EQ(shards(1000), (std::vector<int64_t>{2 + documents[1] + documents[2]}));
}

TEST_F(DataSetBuilderTest, GoesOnWhereARunEnded) {
  const record::DataSetSummary whole = build();
  const record::DataSetContents expected = contents();
  options_.out = (folder_ / "other").string();
  EXPECT_FALSE(DataSetBuilder(options_).begin());  // it ends at once
  const record::DataSetSummary made = build();
  ASSERT_TRUE(begun_);
  EXPECT_EQ(begun_->ids, 0);
  EXPECT_EQ(made.ids, whole.ids);
  const record::DataSetContents found = contents();
  ASSERT_EQ(found.shards.size(), expected.shards.size());
  for (size_t i = 0; i < found.shards.size(); ++i)
    EXPECT_EQ(found.shards[i].hash, expected.shards[i].hash);
}

// A run ends where its next shard cannot be written. What goes on makes the shards of a whole run,
// also after a text that ended with a shard and after an empty one.
TEST_F(DataSetBuilderTest, GoesOnAfterEachShard) {
  constexpr char kEmpty[] = "\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0";  // by gzip
  files::write_plain(folder_ / "empty.txt.gz", {kEmpty, sizeof kEmpty});
  files::write_plain(folder_ / "c.txt", "One more document.");
  for (const char* name : {"empty.txt.gz", "c.txt"})
    options_.files.insert(options_.files.end() - 1, (folder_ / name).string());
  options_.shard_tokens = 1;
  options_.out = (folder_ / "whole").string();
  const record::DataSetSummary whole = build();
  EXPECT_EQ(whole.documents, 5);
  const record::DataSetContents expected = contents();
  for (int64_t shards = 1; shards < whole.shards; ++shards) {
    SCOPED_TRACE(fmt::format("{} shards", shards));
    options_.out = (folder_ / fmt::format("set-{}", shards)).string();
    DataSetBuilder ends(options_);
    ends.begin();
    const auto in_the_way =
        std::filesystem::path(options_.out) / fmt::format("shard-{:05}.bin", shards);
    std::filesystem::create_directory(in_the_way);
    EXPECT_THROW(ends.run([](int64_t) {}), Error);
    std::filesystem::remove(in_the_way);
    const record::DataSetSummary made = build();
    ASSERT_TRUE(begun_);
    EXPECT_EQ(begun_->shards, shards);
    EXPECT_EQ(made.ids, whole.ids);
    EXPECT_EQ(made.documents, whole.documents);
    const record::DataSetContents found = contents();
    ASSERT_EQ(found.shards.size(), expected.shards.size());
    for (size_t i = 0; i < found.shards.size(); ++i)
      EXPECT_EQ(found.shards[i].hash, expected.shards[i].hash) << i;
  }
}

TEST_F(DataSetBuilderTest, RefusesWhatItCannotGoOnWith) {
  build();
  files::expect_error([&] { build(); }, ExitCode::kUsage, "has a complete data set already");
  options_.out = (folder_ / "other").string();
  DataSetBuilder(options_).begin();
  options_.form.has_end = false;
  files::expect_error([&] { build(); }, ExitCode::kUsage, "that other files or options began");
  options_.files = {(folder_ / "none").string()};
  EXPECT_THROW(DataSetBuilder{options_}, Error);
  files::write_plain(folder_ / "empty.jsonl", "\n");
  options_.files = {(folder_ / "empty.jsonl").string()};
  options_.out = (folder_ / "third").string();
  files::expect_error([&] { build(); }, ExitCode::kBadFile, "expected documents, found none");
}

}  // namespace
}  // namespace ridge::train
