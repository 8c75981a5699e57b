// SPDX-License-Identifier: Apache-2.0
// Token data sets: ids from bytes, windows and their order, and bytes from text.
#include "text/token_dataset.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "text/text_fixtures.h"

namespace ridge::text {
namespace {

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& ids) {
  std::vector<std::byte> bytes(ids.size() * sizeof(T));
  std::memcpy(bytes.data(), ids.data(), bytes.size());
  return bytes;
}

std::vector<uint16_t> counting(size_t count) {
  std::vector<uint16_t> ids(count);
  for (size_t i = 0; i < count; ++i) ids[i] = static_cast<uint16_t>(i);
  return ids;
}

TEST(TokenIds, ReadsBothWidths) {
  std::vector<int32_t> out(2);
  auto narrow = bytes_of(std::vector<uint16_t>{7, 65535, 3});
  TokenIds(narrow, IdWidth::k16, 65536, "f").read(1, out);
  EXPECT_EQ(out, (std::vector<int32_t>{65535, 3}));
  auto wide = bytes_of(std::vector<uint32_t>{7, 262143, 3});
  TokenIds(wide, IdWidth::k32, 262144, "f").read(0, out);
  EXPECT_EQ(out, (std::vector<int32_t>{7, 262143}));
  EXPECT_EQ(smallest_id_width(65536), IdWidth::k16);
  EXPECT_EQ(smallest_id_width(65537), IdWidth::k32);
}

TEST(TokenIds, RefusesBadFiles) {
  std::vector<int32_t> out(3);
  auto bytes = bytes_of(std::vector<uint16_t>{1, 2, 99});
  EXPECT_NE(error_of([&] { TokenIds(bytes, IdWidth::k32, 100, "data.bin"); }).find("data.bin"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              TokenIds(bytes, IdWidth::k16, 99, "data.bin").read(0, out);
            }).find("99 at position 2"),
            std::string::npos);
  auto huge = bytes_of(std::vector<uint32_t>{1, 2, 0xFFFFFFFFu});
  EXPECT_NE(error_of([&] { TokenIds(huge, IdWidth::k32, 100, "f").read(0, out); }), "");
  EXPECT_THROW(TokenIds(bytes, IdWidth::k16, 100, "f").read(1, out), InternalError);
}

TEST(TokenWindows, LabelsAreTheNextIds) {
  auto bytes = bytes_of(counting(11));  // 3 windows of 3, and one id left over
  TokenWindows windows(TokenIds(bytes, IdWidth::k16, 11, "f"), 3, false, 0);
  EXPECT_EQ(windows.windows(), 3);
  std::vector<int32_t> inputs(6), labels(6);
  windows.batch(1, 2, inputs, labels);  // window 2, then window 0 of the next epoch
  EXPECT_EQ(inputs, (std::vector<int32_t>{6, 7, 8, 0, 1, 2}));
  EXPECT_EQ(labels, (std::vector<int32_t>{7, 8, 9, 1, 2, 3}));
}

TEST(TokenWindows, EachEpochVisitsEachWindowOnceInItsOwnOrder) {
  auto bytes = bytes_of(counting(401));
  TokenIds ids(bytes, IdWidth::k16, 401, "f");
  auto epoch = [&](TokenWindows& windows, int64_t number) {
    std::vector<int32_t> firsts;
    std::vector<int32_t> inputs(20), labels(20);
    for (int64_t b = 0; b < 20; ++b) {
      windows.batch(number * 20 + b, 5, inputs, labels);
      for (size_t i = 0; i < 20; i += 4) firsts.push_back(inputs[i]);
    }
    return firsts;
  };
  TokenWindows windows(ids, 4, true, 42);
  std::vector<int32_t> first = epoch(windows, 0);
  std::vector<int32_t> second = epoch(windows, 1);
  EXPECT_EQ(std::set<int32_t>(first.begin(), first.end()).size(), 100u);
  EXPECT_EQ(std::set<int32_t>(second.begin(), second.end()).size(), 100u);
  EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
  EXPECT_NE(first, second);
  EXPECT_EQ(epoch(windows, 0), first);  // going back to an epoch repeats it
  TokenWindows again(ids, 4, true, 42);
  EXPECT_EQ(epoch(again, 1), second);
  TokenWindows other(ids, 4, true, 43);
  EXPECT_NE(epoch(other, 0), first);
}

TEST(TokenWindows, TooFewIdsAreRefused) {
  auto bytes = bytes_of(counting(4));
  TokenIds ids(bytes, IdWidth::k16, 4, "f");
  EXPECT_NE(error_of([&] { TokenWindows(ids, 4, false, 0); }, ExitCode::kUsage), "");
  EXPECT_NE(error_of([&] { TokenWindows(ids, 0, false, 0); }, ExitCode::kUsage), "");
  EXPECT_NE(error_of([&] { TokenWindows(TokenIds({}, IdWidth::k16, 4, "f"), 1, false, 0); },
                     ExitCode::kUsage),
            "");
  EXPECT_EQ(TokenWindows(ids, 3, false, 0).windows(), 1);
}

TEST(Tokenize, EqualsOneCallOfEncode) {
  std::string text;
  while (text.size() < 5'000'000) text += read_data("corpus.en") + "<|endoftext|>";
  Tokenizer tokenizer(gpt2_spec());
  EncodeOptions options{.parse_special = true, .add_bos = true, .add_eos = true};
  int before = omp_get_max_threads();
  omp_set_num_threads(2);
  std::vector<std::byte> bytes;
  int64_t done = 0;
  int64_t count = tokenize(
      tokenizer, text, options, IdWidth::k16,
      [&](std::span<const std::byte> part) { bytes.insert(bytes.end(), part.begin(), part.end()); },
      [&](int64_t now, int64_t all) {
        EXPECT_GT(now, done);
        EXPECT_EQ(all, static_cast<int64_t>(text.size()));
        done = now;
      });
  omp_set_num_threads(before);
  EXPECT_EQ(done, static_cast<int64_t>(text.size()));
  TokenIds ids(bytes, IdWidth::k16, tokenizer.vocab_size(), "f");
  ASSERT_EQ(ids.size(), count);
  std::vector<int32_t> read(static_cast<size_t>(count));
  ids.read(0, read);
  EXPECT_EQ(read, tokenizer.encode(text, options));
}

TEST(Tokenize, EmptyTextAndWrongWidth) {
  Tokenizer tokenizer(gpt2_spec());
  size_t bytes = 0;
  auto sink = [&](std::span<const std::byte> part) { bytes += part.size(); };
  EXPECT_EQ(tokenize(tokenizer, "", {.add_eos = true}, IdWidth::k32, sink), 1);
  EXPECT_EQ(bytes, 4u);
  EXPECT_EQ(tokenize(tokenizer, "", {}, IdWidth::k16, sink), 0);
  TokenizerSpec wide;
  for (int i = 0; i < 65537; ++i) wide.tokens.push_back("t" + std::to_string(i));
  Tokenizer large(wide);
  EXPECT_NE(error_of([&] { tokenize(large, "t", {}, IdWidth::k16, sink); }, ExitCode::kUsage), "");
}

}  // namespace
}  // namespace ridge::text
