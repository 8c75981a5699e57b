// SPDX-License-Identifier: Apache-2.0
// Data sets of token ids: reads the bytes of a mapped file as ids, makes batches of windows of
// them, and tokenizes text to such bytes. The caller maps and writes the files. The layout is the
// common headerless one: little-endian unsigned ids of 2 or 4 bytes, one after the other.
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

// 16 bits if all ids fit.
IdWidth smallest_id_width(int32_t vocab_size);

// A view of ids; the bytes must outlive it.
class TokenIds {
 public:
  // Throws file_error that names `source` if the bytes are not a whole number of ids.
  TokenIds(std::span<const std::byte> bytes, IdWidth width, int32_t vocab_size, std::string source);

  int64_t size() const { return size_; }

  // Reads ids [first, first + out.size()), which must exist. Throws file_error that names the
  // position of an id outside the vocabulary.
  void read(int64_t first, std::span<int32_t> out) const;

 private:
  std::span<const std::byte> bytes_;
  IdWidth width_;
  int32_t vocab_size_;
  int64_t size_;
  std::string source_;
};

// Windows of T ids and their labels, which are the ids shifted by one. Window w begins at id w T; a
// remainder at the end is not used. Every epoch visits each window once, in file order or shuffled
// by the seed and the epoch.
class TokenWindows {
 public:
  // Throws usage_error if there are fewer than T + 1 ids.
  TokenWindows(TokenIds ids, int64_t seq_len, bool shuffle, uint32_t seed);

  int64_t windows() const { return windows_; }

  // Reads batch number `index` of size B: places index B to (index + 1) B - 1 of the endless
  // sequence of epochs. inputs, labels: [B, T]. Batches may be read in any order; in order is
  // fastest.
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
  int64_t epoch_ = -1;  // the epoch of order_
  std::vector<uint32_t> order_;
  std::vector<int32_t> window_;  // T + 1
};

// Encodes a text of any length on all threads and passes its ids to `sink` as bytes, in order. The
// text is cut only at the tokenizer's safe cuts, so the ids are those of one call of encode.
// Returns the number of ids. `progress` (done bytes, all bytes) may be empty. Throws usage_error if
// the vocabulary does not fit `width`.
int64_t tokenize(const Tokenizer& tokenizer,
                 std::string_view text,
                 const EncodeOptions& options,
                 IdWidth width,
                 const std::function<void(std::span<const std::byte>)>& sink,
                 const std::function<void(int64_t, int64_t)>& progress = nullptr);

}  // namespace ridge::text
