// SPDX-License-Identifier: Apache-2.0
// The data that a training's options name: folders of ids, files of ids and texts, their weights,
// and the tokenizer that they share.
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "files/scratch.h"
#include "train/data_set_builder.h"
#include "train/small_run.h"
#include "train/training_data.h"

namespace ridge::train {
namespace {

constexpr int64_t kGpt2Tokens = 701, kLlamaTokens = 949;

std::string tokenizer_path(const std::string& name) {
  return test_data("models/tokenizers/" + name).string();
}

class TrainingDataSources : public testing::Test {
 protected:
  std::string ids(const std::string& name, size_t count = 100) const {
    std::vector<uint16_t> ids(count);
    for (size_t i = 0; i < count; ++i) ids[i] = static_cast<uint16_t>(i % 64);
    const std::string_view bytes(reinterpret_cast<const char*>(ids.data()), 2 * count);
    files::write_plain(folder_ / name, bytes);
    return (folder_ / name).string();
  }
  std::string text(const std::string& name, const std::string& content) const {
    files::write_plain(folder_ / name, content);
    return (folder_ / name).string();
  }
  // A folder of ids with its tokenizer.
  std::string set(const std::string& name, const std::string& tokenizer) const {
    DataSetOptions options;
    options.files = {text(name + ".txt", "One document of a few words, and then some more.")};
    options.tokenizer = tokenizer_path(tokenizer);
    options.out = (folder_ / name).string();
    DataSetBuilder builder(options);
    builder.begin();
    builder.run([](int64_t) {});
    return options.out;
  }
  // The data, cut into windows of two ids. The progress of texts goes to progress_.
  std::unique_ptr<TrainingData> opened(const models::TokenizerFile* tokenizer = nullptr,
                                       int64_t vocabulary = 64) {
    progress_.clear();
    auto data = std::make_unique<TrainingData>(
        options_, vocabulary, tokenizer,
        [this](int64_t bytes, int64_t total) { progress_.emplace_back(bytes, total); });
    return data;
  }
  const WeightedData& only(TrainingData& data) const {
    data.make_batches(2, {4096}, 1);
    EXPECT_EQ(data.batches().data().size(), 1u);
    return data.batches().data()[0];
  }
  std::string refusal(const models::TokenizerFile* tokenizer = nullptr) {
    try {
      opened(tokenizer);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage) << error.what();
      return error.what();
    }
    return "";
  }

  files::ScratchFolder folder_;
  TrainingDataOptions options_;
  std::vector<std::pair<int64_t, int64_t>> progress_;
};

TEST_F(TrainingDataSources, HaveAWeightAfterTheLastEqualsSign) {
  const std::string a = ids("a.bin");
  ids("b=2.bin");
  const auto opens = [&](const std::string& path, const std::string& as, double weight) {
    options_.data = {path};
    const auto data = opened();
    const WeightedData& one = only(*data);
    EXPECT_EQ(one.tokens.source(), as);
    EXPECT_EQ(one.weight, weight);
  };
  const std::string b = (folder_ / "b=2.bin").string();
  opens(a, a, 1);
  opens(a + "=0.25", a, 0.25);
  opens(a + "=1e-6", a, 1e-6);
  opens(a + "=1e6", a, 1e6);
  opens(b, b, 1);
  opens(b + "=3", b, 3);
  const auto refuses = [&](const std::string& weight) {
    options_.data = {a + "=" + weight};
    EXPECT_EQ(refusal(),
              "[data] expected a weight from 1e-06 to 1000000, got " + printable(weight));
  };
  refuses("9e-7");
  refuses("1000001");
  refuses("0");
  refuses("-1");
  refuses("nan");
}

// A text that is no number belongs to the path.
TEST_F(TrainingDataSources, HaveNoWeightThatIsNoNumber) {
  const std::string a = ids("a.bin");
  for (const char* end : {"=", "=0.5x", "=x"}) {
    options_.data = {a + end};
    files::expect_error([&] { opened(); }, ExitCode::kBadFile, "a.bin" + std::string(end));
  }
}

TEST_F(TrainingDataSources, AreAtMostSoMany) {
  options_.data.assign(256, ids("a.bin", 20));
  EXPECT_EQ(refusal(), "");
  options_.data.push_back(options_.data[0]);
  EXPECT_EQ(refusal(), "[data] expected at most 256 data sets, got 257");
}

TEST_F(TrainingDataSources, RefuseOptionsByTheirNames) {
  options_.data = {ids("a.bin")};
  options_.validation_batches = 1;
  EXPECT_EQ(refusal(), "");
  options_.validation_batches = 0;
  EXPECT_EQ(refusal(), "[val-batches] expected at least 1, got 0");
  options_.seed = -1;
  EXPECT_EQ(refusal(), "[seed] expected a number >= 0, got -1");
  options_.form.format = "csv";
  EXPECT_EQ(refusal(), "[text-format] expected auto, text or jsonl, got \"csv\"");
}

TEST_F(TrainingDataSources, ArePackedAsTheOptionsSay) {
  EXPECT_FALSE(options_.is_given());
  options_.data = {"a"};
  EXPECT_TRUE(options_.is_given());
  EXPECT_EQ(options_.packing(), models::Packing::kNone);
  options_.pack = "documents";
  EXPECT_EQ(options_.packing(), models::Packing::kDocuments);
  options_.pack = "windows";
  EXPECT_EQ(options_.packing(), models::Packing::kNone);
  options_.pack = "rows";
  files::expect_error([&] { options_.packing(); }, ExitCode::kUsage,
                      "[pack] expected windows or documents, got \"rows\"");
}

TEST_F(TrainingDataSources, MayBeAFolderWithItsTokenizer) {
  const std::string path = set("set", "gpt2");
  options_.data = {path};
  const auto data = opened();
  EXPECT_EQ(data->vocabulary(), kGpt2Tokens);
  ASSERT_NE(data->tokenizer(), nullptr);
  EXPECT_EQ(std::ssize(data->tokenizer()->spec.tokens), kGpt2Tokens);
  EXPECT_TRUE(progress_.empty());
  const WeightedData& one = only(*data);
  EXPECT_EQ(one.tokens.source(), path);
  EXPECT_EQ(one.tokens.vocab_size(), kGpt2Tokens);
  EXPECT_TRUE(one.tokens.index());
}

// It says how many ids there are also without its tokenizer.
TEST_F(TrainingDataSources, MayBeAFolderWithoutATokenizer) {
  const std::string path = set("set", "llama2");
  std::filesystem::remove_all(path + "/tokenizer");
  options_.data = {path};
  const auto alone = opened();
  EXPECT_EQ(alone->vocabulary(), kLlamaTokens);
  EXPECT_EQ(alone->tokenizer(), nullptr);
  const models::TokenizerFile gpt2 = models::read_tokenizer(tokenizer_path("gpt2"));
  EXPECT_EQ(opened(&gpt2)->vocabulary(), kLlamaTokens) << "the larger one";
}

TEST_F(TrainingDataSources, ShareOneTokenizer) {
  const models::TokenizerFile gpt2 = models::read_tokenizer(tokenizer_path("gpt2"));
  options_.data = {ids("a.bin")};
  EXPECT_EQ(opened()->vocabulary(), 0);
  EXPECT_EQ(opened()->tokenizer(), nullptr);
  options_.tokenizer = tokenizer_path("gpt2");
  EXPECT_EQ(refusal(&gpt2), "") << "the model's, again";
  EXPECT_EQ(opened()->vocabulary(), kGpt2Tokens);
  EXPECT_EQ(std::ssize(opened()->tokenizer()->spec.tokens), kGpt2Tokens);
  options_.data = {set("set", "gpt2")};
  EXPECT_EQ(refusal(&gpt2), "");
  options_.tokenizer = tokenizer_path("llama2");
  const models::TokenizerFile llama = models::read_tokenizer(options_.tokenizer);
  EXPECT_NE(llama.source, gpt2.source);
  EXPECT_EQ(refusal(&gpt2), "[data] expected one tokenizer, but that of " +
                                printable(llama.source) + " is not that of " +
                                printable(gpt2.source));
  EXPECT_TRUE(refusal().ends_with("is not that of " + printable(llama.source))) << refusal();
}

// A file of ids says no vocabulary: the tokenizer's bounds it, or else the model's.
TEST_F(TrainingDataSources, MayBeAFileOfIds) {
  const std::string a = ids("a.bin", 90);
  options_.data = {a};
  const auto of_model = opened(nullptr, 77);
  EXPECT_EQ(only(*of_model).tokens.vocab_size(), 77);
  EXPECT_EQ(only(*opened(nullptr, 77)).tokens.size(), 90);
  options_.tokenizer = tokenizer_path("gpt2");
  const auto of_tokenizer = opened(nullptr, 77);
  EXPECT_EQ(only(*of_tokenizer).tokens.vocab_size(), kGpt2Tokens);
}

TEST_F(TrainingDataSources, MayBeATextThatIsTokenized) {
  const std::string content = "One document of a few words, for a window or two.";
  const std::string path = text("a.txt", content);
  options_.data = {path};
  options_.tokenizer = tokenizer_path("gpt2");
  const text::Tokenizer tokenizer = models::load_tokenizer(options_.tokenizer);
  std::vector<int32_t> expected = tokenizer.encode(content);
  expected.push_back(tokenizer.spec().eos);
  const auto data = opened();
  ASSERT_GE(progress_.size(), 2u);
  EXPECT_EQ(progress_[0], std::pair(int64_t{0}, std::ssize(content)));
  int64_t read_bytes = 0;
  for (size_t i = 1; i < progress_.size(); ++i) {
    EXPECT_GT(progress_[i].first, 0);
    EXPECT_EQ(progress_[i].second, std::ssize(content));
    read_bytes += progress_[i].first;
  }
  EXPECT_EQ(read_bytes, std::ssize(content));
  data->make_batches(std::ssize(expected) - 1, {4096}, 1);
  const text::TokenSet& tokens = data->batches().data()[0].tokens;
  EXPECT_EQ(tokens.source(), path);
  EXPECT_EQ(tokens.vocab_size(), kGpt2Tokens);
  EXPECT_EQ(tokens.size(), std::ssize(expected));
  EXPECT_EQ(tokens.document_starts(), std::vector<int64_t>{0});
  const Batch batch = data->batches().next(1);
  EXPECT_EQ(batch.ids, std::vector<int32_t>(expected.begin(), expected.end() - 1));
  EXPECT_EQ(batch.labels, std::vector<int32_t>(expected.begin() + 1, expected.end()));
  options_.form.has_end = false;
  EXPECT_EQ(only(*opened()).tokens.size(), std::ssize(expected) - 1);
}

TEST_F(TrainingDataSources, KeepDocumentsApart) {
  options_.data = {text("a.jsonl",
                        "{\"words\": \"two words\"}\n{\"words\": \"three words here\"}\n"
                        "{\"words\": \"and one more\"}\n")};
  options_.form.field = "words";
  options_.tokenizer = tokenizer_path("gpt2");
  options_.pack = "documents";
  const text::Tokenizer tokenizer = models::load_tokenizer(options_.tokenizer);
  const int64_t first = std::ssize(tokenizer.encode("two words")) + 1,
                second = first + std::ssize(tokenizer.encode("three words here")) + 1,
                all = second + std::ssize(tokenizer.encode("and one more")) + 1;
  const auto data = opened();
  data->make_batches(all - 1, {4096}, 1);
  const text::TokenSet& tokens = data->batches().data()[0].tokens;
  EXPECT_EQ(tokens.size(), all);
  EXPECT_EQ(tokens.document_starts(), (std::vector<int64_t>{0, first, second}));
  const Batch batch = data->batches().next(1);
  EXPECT_EQ(batch.positions[static_cast<size_t>(first)], 0);
  EXPECT_EQ(batch.labels[static_cast<size_t>(first) - 1], -1);
}

// Validation has its own documents, packed as those of the training.
TEST_F(TrainingDataSources, ValidateAsTheyTrain) {
  options_.data = {ids("a.bin")};
  const auto without = opened();
  without->make_batches(2, {4096}, 1);
  EXPECT_TRUE(without->validation().empty());
  options_.data = {text("a.txt", "One document of a few words.")};
  options_.validation = text("v.jsonl", "{\"text\": \"two words\"}\n{\"text\": \"three words\"}\n");
  options_.tokenizer = tokenizer_path("gpt2");
  options_.pack = "documents";
  const text::Tokenizer tokenizer = models::load_tokenizer(options_.tokenizer);
  const auto first = static_cast<size_t>(std::ssize(tokenizer.encode("two words")) + 1);
  const auto data = opened();
  data->make_batches(static_cast<int64_t>(first) + 1, {4096}, 1);
  ASSERT_EQ(data->validation().size(), 1u);
  EXPECT_EQ(data->validation()[0].labels[first - 1], -1);
  EXPECT_EQ(data->validation()[0].positions[first], 0);
}

TEST_F(TrainingDataSources, RefuseATextWithoutATokenizer) {
  const std::string path = text("a.txt", "words");
  options_.data = {path};
  EXPECT_EQ(refusal(),
            "[tokenizer] expected --tokenizer (`ridge tokenizer train` makes one), or a --model "
            "with one, for the text " +
                printable(path));
  options_.data = {(folder_ / "missing.txt").string()};
  files::expect_error([&] { opened(); }, ExitCode::kBadFile, "missing.txt] cannot open");
}

// The order of windows follows the seed.
TEST_F(TrainingDataSources, AreReadInTheOrderOfTheSeed) {
  options_.data = {ids("a.bin", 1000)};
  const auto first_ids = [&](int64_t seed) {
    options_.seed = seed;
    const auto data = opened();
    data->make_batches(8, {64}, 4);
    return data->batches().next(4).ids;
  };
  const std::vector<int32_t> one = first_ids(1);
  EXPECT_EQ(first_ids(1), one);
  EXPECT_NE(first_ids(2), one);
}

}  // namespace
}  // namespace ridge::train
