// SPDX-License-Identifier: Apache-2.0
// The order of windows, mixtures of data sets, and batches of them.
#include "train/token_batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "files/scratch.h"

namespace ridge::train {
namespace {

text::TokenSet counting(int64_t count, int32_t vocabulary = 1000) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i) % vocabulary;
  return text::TokenSet::of_ids(std::move(ids), vocabulary, "counting");
}

std::vector<WeightedData> one(text::TokenSet set) {
  std::vector<WeightedData> data;
  data.push_back({std::move(set), 1});
  return data;
}

TEST(Permuted, IsAPermutationOfItsOwnForEachSeed) {
  for (const int64_t count : {1, 2, 3, 4, 5, 16, 17, 1000, 4097}) {
    std::set<int64_t> seen;
    std::vector<int64_t> order, other;
    for (int64_t i = 0; i < count; ++i) {
      order.push_back(permuted(i, count, 7));
      other.push_back(permuted(i, count, 8));
      seen.insert(order.back());
    }
    EXPECT_EQ(std::ssize(seen), count);
    EXPECT_EQ(*seen.begin(), 0);
    EXPECT_EQ(*seen.rbegin(), count - 1);
    if (count < 100) continue;
    EXPECT_NE(order, other);
    // A random permutation leaves about one element, and half of the neighbours rise.
    int64_t fixed = 0, rising = 0;
    for (int64_t i = 0; i < count; ++i) {
      fixed += order[static_cast<size_t>(i)] == i;
      rising += i > 0 && order[static_cast<size_t>(i)] > order[static_cast<size_t>(i) - 1];
    }
    EXPECT_LT(fixed, 10);
    EXPECT_NEAR(static_cast<double>(rising) / static_cast<double>(count), 0.5, 0.05);
  }
}

TEST(Mixture, SharesAreExactAndIndexesCount) {
  const std::vector<double> weights{1, 5, 0.25, 3.75};
  const Mixture mixture(weights);
  std::vector<int64_t> next(weights.size(), 0);
  for (int64_t place = 0; place < 100'000; ++place) {
    const Mixture::Window at = mixture.at(place);
    ASSERT_EQ(at.index, next[at.source]++) << place;
    if (place % 1000 != 999) continue;
    for (size_t i = 0; i < weights.size(); ++i)
      EXPECT_NEAR(static_cast<double>(next[i]), static_cast<double>(place + 1) * weights[i] / 10,
                  3);
  }
  const Mixture single(std::vector<double>{3});
  EXPECT_EQ(single.at(12).index, 12);
}

TEST(TokenBatches, AnEpochVisitsEachWindowOnceInItsOwnOrder) {
  // 100 windows of 4, and three ids left over.
  TokenBatches batches(one(counting(404)), 4, 1000, 42);
  const auto epoch = [](TokenBatches& from, int64_t number) {
    from.seek(number * 100);
    std::vector<int32_t> firsts;
    for (int i = 0; i < 20; ++i) {
      const Batch batch = from.next(5);
      EXPECT_EQ(batch.ids.size(), 20u);
      for (size_t t = 0; t < 20; ++t) {
        EXPECT_EQ(batch.labels[t], batch.ids[t] + 1);
        EXPECT_EQ(batch.positions[t], static_cast<int32_t>(t % 4));
      }
      for (size_t t = 0; t < 20; t += 4) firsts.push_back(batch.ids[t]);
    }
    return firsts;
  };
  const std::vector<int32_t> first = epoch(batches, 0), second = epoch(batches, 1);
  EXPECT_EQ(batches.place(), 200);
  EXPECT_EQ(std::set<int32_t>(first.begin(), first.end()).size(), 100u);
  EXPECT_EQ(std::set<int32_t>(second.begin(), second.end()).size(), 100u);
  EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
  EXPECT_NE(first, second);
  EXPECT_EQ(epoch(batches, 0), first);
  TokenBatches again(one(counting(404)), 4, 1000, 42), other(one(counting(404)), 4, 1000, 43);
  EXPECT_EQ(epoch(again, 1), second);
  EXPECT_NE(epoch(other, 0), first);
}

TEST(TokenBatches, TheOrderDoesNotDependOnTheBatchSize) {
  TokenBatches small(one(counting(4001)), 8, 1000, 1), large(one(counting(4001)), 8, 1000, 1);
  const Batch all = large.next(12);
  std::vector<int32_t> ids;
  for (const int64_t size : {1, 4, 7}) {
    const Batch part = small.next(size);
    ids.insert(ids.end(), part.ids.begin(), part.ids.end());
  }
  EXPECT_EQ(ids, all.ids);
}

TEST(TokenBatches, AMixtureTakesRowsOfEachSet) {
  std::vector<WeightedData> data;
  data.push_back({text::TokenSet::of_ids(std::vector<int32_t>(100, 1), 10, "ones"), 3});
  data.push_back({text::TokenSet::of_ids(std::vector<int32_t>(100, 2), 10, "twos"), 1});
  TokenBatches batches(std::move(data), 4, 10, 0);
  const Batch batch = batches.next(400);
  EXPECT_EQ(std::count(batch.ids.begin(), batch.ids.end(), 1), 1200);
  EXPECT_EQ(std::count(batch.ids.begin(), batch.ids.end(), 2), 400);
}

TEST(TokenBatches, UnfitDataAreRefused) {
  const auto expect = [](int64_t ids, int64_t vocabulary, const std::string& part) {
    files::expect_error([&] { TokenBatches(one(counting(ids)), 8, vocabulary, 0); },
                        ExitCode::kUsage, part);
  };
  expect(8, 1000, "expected at least 9 ids for a sequence of 8 and its labels, counting has 8");
  expect(1, 1000, "counting has 1");
  expect(100, 999, "expected ids below the model's vocabulary of 999, counting has 1000");
}

TEST(TokenBatches, RefuseIdsForWhichTheModelHasNoRow) {
  // A tokenizer of 1000 tokens and a model of 990 rows.
  TokenBatches few(one(counting(80)), 8, {990, 1000}, 0);
  EXPECT_EQ(few.next(9).ids.size(), 72u);
  TokenBatches all(one(counting(1000)), 8, {990, 1000}, 0);
  files::expect_error([&] { all.next(124); }, ExitCode::kBadFile,
                      "[counting] expected ids below the model's vocabulary of 990, found 990");
}

std::vector<WeightedData> with_documents(int64_t count, std::vector<int64_t> starts) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
  return one(text::TokenSet::of_ids(std::move(ids), 1000, "set", std::move(starts)));
}

TEST(TokenBatches, PackedDocumentsKeepTheirBoundaries) {
  // Windows of 5: | 0 1 2 | 3 4 / 5 6 7 8 9 / 10 | 11 12 13 14 / 15 | 16 | 17 18 19 /, 11 after an
  // empty document, 20 begins another.
  const std::vector<int64_t> starts{0, 3, 11, 11, 16, 17, 20};
  TokenBatches batches(with_documents(24, starts), 5, 1000, 9, models::Packing::kDocuments);
  ASSERT_EQ(batches.windows(0), 4);
  // Independently, token by token, from the set of boundaries.
  const std::set<int64_t> bounds(starts.begin(), starts.end());
  const Batch batch = batches.next(8);  // two epochs
  std::multiset<int32_t> firsts;
  for (size_t row = 0; row < 8; ++row) {
    const int32_t first = batch.ids[row * 5];
    firsts.insert(first);
    int32_t position = 0;
    for (int32_t t = 0; t < 5; ++t) {
      const size_t at = row * 5 + static_cast<size_t>(t);
      if (t > 0 && bounds.contains(first + t)) position = 0;
      EXPECT_EQ(batch.ids[at], first + t);
      EXPECT_EQ(batch.positions[at], position++) << first << " " << t;
      EXPECT_EQ(batch.labels[at], bounds.contains(first + t + 1) ? -1 : first + t + 1);
    }
  }
  EXPECT_EQ(firsts, (std::multiset<int32_t>{0, 0, 5, 5, 10, 10, 15, 15}));
  // The order is that of windows, and any place is found at once.
  TokenBatches windows(with_documents(24, {}), 5, 1000, 9);
  EXPECT_EQ(windows.next(8).ids, batch.ids);
  TokenBatches late(with_documents(24, starts), 5, 1000, 9, models::Packing::kDocuments);
  late.seek(6);
  const Batch rest = late.next(2);
  EXPECT_TRUE(
      std::equal(rest.positions.begin(), rest.positions.end(), batch.positions.begin() + 30));
  EXPECT_TRUE(std::equal(rest.labels.begin(), rest.labels.end(), batch.labels.begin() + 30));
}

TEST(TokenBatches, UnfitDocumentsAreRefused) {
  const auto expect = [](std::vector<int64_t> starts, ExitCode code, const std::string& part) {
    files::expect_error(
        [&] {
          TokenBatches(with_documents(24, std::move(starts)), 5, 1000, 0,
                       models::Packing::kDocuments);
        },
        code, part);
  };
  expect({}, ExitCode::kUsage, "[pack] expected an index of documents, set has none");
  expect({0, 9, 8}, ExitCode::kBadFile, "expected documents that begin in order among 24 ids");
  expect({0, 25}, ExitCode::kBadFile, "expected documents that begin in order among 24 ids");
  expect({-1, 5}, ExitCode::kBadFile, "expected documents that begin in order among 24 ids");
  std::vector<int64_t> singles(24);
  for (size_t i = 0; i < singles.size(); ++i) singles[i] = static_cast<int64_t>(i);
  files::expect_error(
      [&] {
        text::TokenSet set = std::move(with_documents(24, singles)[0].tokens);
        validation_batches(set, 5, 1000, {2, 10}, models::Packing::kDocuments);
      },
      ExitCode::kUsage, "expected documents of at least 2 tokens, set has none");
}

TEST(ValidationBatches, AreTheFirstWindowsInOrder) {
  text::TokenSet set = counting(45);  // 11 windows of 4
  const std::vector<Batch> all = validation_batches(set, 4, 1000, {3, 100});
  ASSERT_EQ(all.size(), 4u);
  for (int32_t b = 0; b < 4; ++b)
    for (int32_t i = 0; i < 12; ++i) {
      const auto at = static_cast<size_t>(i);
      const bool is_there = b * 12 + i < 44;
      EXPECT_EQ(all[static_cast<size_t>(b)].labels[at], is_there ? b * 12 + i + 1 : -1);
    }
  EXPECT_EQ(validation_batches(set, 4, 1000, {3, 2}).size(), 2u);
}

}  // namespace
}  // namespace ridge::train
