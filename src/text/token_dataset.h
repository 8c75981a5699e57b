// SPDX-License-Identifier: Apache-2.0
// Data sets of token ids: bytes of a mapped file seen as ids, windows of them as batches, and text
// turned into such bytes. Opens no files: the caller maps and writes them. The layout is the common
// headerless one: little-endian unsigned ids of 2 or 4 bytes, one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace ridge::text {

enum class IdWidth : uint8_t { k16 = 2, k32 = 4 };  // bytes per id

// 16 bits where all ids fit.
IdWidth smallest_id_width(int32_t vocab_size);

// A view of ids; the bytes must outlive it.
class TokenIds {
 public:
  // file_error that names `source` where the bytes are no whole number of ids.
  TokenIds(std::span<const std::byte> bytes, IdWidth width, int32_t vocab_size, std::string source);

  int64_t size() const { return size_; }

  // ids [first, first + out.size()), which must exist. file_error that names the place of an id
  // outside of the vocabulary.
  void read(int64_t first, std::span<int32_t> out) const;

 private:
  std::span<const std::byte> bytes_;
  IdWidth width_;
  int32_t vocab_size_;
  int64_t size_;
  std::string source_;
};

// Windows of T ids and their labels, the ids one further on. Window w begins at id w T; what is
// left at the end is not used. Every epoch visits each window once, in file order or shuffled by
// the seed and the epoch.
class TokenWindows {
 public:
  // usage_error where there are fewer than T + 1 ids.
  TokenWindows(TokenIds ids, int64_t seq_len, bool shuffle, uint32_t seed);

  int64_t windows() const { return windows_; }

  // Batch number `index` of size B: places index B to (index + 1) B - 1 of the endless sequence of
  // epochs. inputs, labels: [B, T]. Batches may be asked for in any order; in order is fastest.
  void batch(int64_t index,
             int64_t batch_size,
             std::span<int32_t> inputs,
             std::span<int32_t> labels);

 private:
  int64_t window_at(int64_t place);

  TokenIds ids_;
  int64_t seq_len_;
  bool shuffle_;
  uint32_t seed_;
  int64_t windows_;
  int64_t epoch_ = -1;  // whose order is kept
  std::vector<uint32_t> order_;
  std::vector<int32_t> window_;  // T + 1
};

// Encodes a text of any length on all threads and hands its ids to `sink`, as bytes, in order. The
// ids are those of one call of encode wherever the tokenizer knows safe cuts. Returns their number.
// `progress` (done bytes, all bytes) may be empty. usage_error where a vocabulary does not fit
// `width`.
int64_t tokenize(const Tokenizer& tokenizer,
                 std::string_view text,
                 const EncodeOptions& options,
                 IdWidth width,
                 const std::function<void(std::span<const std::byte>)>& sink,
                 const std::function<void(int64_t, int64_t)>& progress = nullptr);

}  // namespace ridge::text
