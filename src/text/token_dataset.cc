// SPDX-License-Identifier: Apache-2.0
// Copies ids one window at a time, so a data set may be larger than memory.
#include "text/token_dataset.h"

#include <omp.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <limits>

#include "base/error.h"
#include "base/random.h"

namespace ridge::text {
namespace {

static_assert(std::endian::native == std::endian::little, "ids are copied as they lie in the file");

constexpr size_t kChunkBytes = size_t{1} << 20;
// Chunks of one parallel loop: enough to balance the threads, and a bound on the ids that wait to
// be written.
constexpr size_t kChunksPerThread = 4;

size_t bytes_of(IdWidth width) { return static_cast<size_t>(width); }

std::vector<std::byte> packed_ids(const std::vector<int32_t>& ids, IdWidth width) {
  std::vector<std::byte> out(ids.size() * bytes_of(width));
  for (size_t i = 0; i < ids.size(); ++i)
    std::memcpy(&out[i * bytes_of(width)], &ids[i], bytes_of(width));
  return out;
}

}  // namespace

IdWidth smallest_id_width(int32_t vocab_size) {
  return vocab_size <= std::numeric_limits<uint16_t>::max() + 1 ? IdWidth::k16 : IdWidth::k32;
}

TokenIds::TokenIds(std::span<const std::byte> bytes,
                   IdWidth width,
                   int32_t vocab_size,
                   std::string source)
    : bytes_(bytes),
      width_(width),
      vocab_size_(vocab_size),
      size_(static_cast<int64_t>(bytes.size() / bytes_of(width))),
      source_(std::move(source)) {
  if (bytes.size() % bytes_of(width) != 0)
    throw file_error("[{}] expected ids of {} bytes each, got {} bytes", source_, bytes_of(width),
                     bytes.size());
}

void TokenIds::read(int64_t first, std::span<int32_t> out) const {
  auto count = static_cast<int64_t>(out.size());
  RIDGE_CHECK(first >= 0 && count <= size_ && first <= size_ - count, "ids {} to {} of {}", first,
              first + count, size_);
  const std::byte* from = bytes_.data() + static_cast<size_t>(first) * bytes_of(width_);
  for (size_t i = 0; i < out.size(); ++i) {
    uint32_t id = 0;
    std::memcpy(&id, from + i * bytes_of(width_), bytes_of(width_));
    if (id >= static_cast<uint32_t>(vocab_size_))
      throw file_error("[{}] expected ids below {}, got {} at position {}", source_, vocab_size_,
                       id, first + static_cast<int64_t>(i));
    out[i] = static_cast<int32_t>(id);
  }
}

TokenWindows::TokenWindows(TokenIds ids, int64_t seq_len, bool shuffle, uint32_t seed)
    : ids_(std::move(ids)), seq_len_(seq_len), shuffle_(shuffle), seed_(seed) {
  if (seq_len < 1 || ids_.size() - 1 < seq_len)
    throw usage_error("[data] a sequence of {} needs {} ids and one more, got {}", seq_len, seq_len,
                      ids_.size());
  windows_ = (ids_.size() - 1) / seq_len;
  if (shuffle && windows_ > std::numeric_limits<uint32_t>::max())
    throw usage_error("[data] expected at most 2^32 windows to shuffle, got {}", windows_);
  window_.resize(static_cast<size_t>(seq_len) + 1);
}

int64_t TokenWindows::window_at(int64_t place) {
  if (!shuffle_) return place % windows_;
  int64_t epoch = place / windows_;
  if (epoch != epoch_) {
    order_ =
        Random(seed_ + static_cast<uint32_t>(epoch)).permutation(static_cast<uint32_t>(windows_));
    epoch_ = epoch;
  }
  return order_[static_cast<size_t>(place % windows_)];
}

void TokenWindows::batch(int64_t index,
                         int64_t batch_size,
                         std::span<int32_t> inputs,
                         std::span<int32_t> labels) {
  auto elements = static_cast<size_t>(batch_size * seq_len_);
  RIDGE_CHECK(index >= 0 && inputs.size() == elements && labels.size() == elements,
              "batch {} of {} x {} into {} and {}", index, batch_size, seq_len_, inputs.size(),
              labels.size());
  auto length = static_cast<size_t>(seq_len_);
  for (int64_t b = 0; b < batch_size; ++b) {
    ids_.read(window_at(index * batch_size + b) * seq_len_, window_);
    size_t row = static_cast<size_t>(b) * length;
    std::copy_n(window_.begin(), length, inputs.begin() + static_cast<int64_t>(row));
    std::copy_n(window_.begin() + 1, length, labels.begin() + static_cast<int64_t>(row));
  }
}

int64_t tokenize(const Tokenizer& tokenizer,
                 std::string_view text,
                 const EncodeOptions& options,
                 IdWidth width,
                 const std::function<void(std::span<const std::byte>)>& sink,
                 const std::function<void(int64_t, int64_t)>& progress) {
  if (width == IdWidth::k16 && smallest_id_width(tokenizer.vocab_size()) != IdWidth::k16)
    throw usage_error("[data] expected a vocabulary of at most 65536 for 16-bit ids, got {}",
                      tokenizer.vocab_size());
  int64_t count = 0;
  size_t at = 0;
  bool first = true;
  size_t round = static_cast<size_t>(omp_get_max_threads()) * kChunksPerThread;
  while (at < text.size() || first) {
    std::vector<std::string_view> chunks;
    std::vector<EncodeOptions> chunk_options;
    do {
      size_t end = tokenizer.safe_cut(text, std::min(at + kChunkBytes, text.size()));
      chunks.push_back(text.substr(at, end - at));
      EncodeOptions here = options;
      here.add_bos = options.add_bos && first;
      here.add_eos = options.add_eos && end == text.size();
      here.continuation = options.continuation || !first;
      chunk_options.push_back(here);
      at = end;
      first = false;
    } while (at < text.size() && chunks.size() < round);

    std::vector<std::vector<std::byte>> packed(chunks.size());
    std::vector<std::exception_ptr> failures(chunks.size());
#pragma omp parallel for schedule(dynamic, 1)
    for (size_t i = 0; i < chunks.size(); ++i) {
      try {
        packed[i] = packed_ids(tokenizer.encode(chunks[i], chunk_options[i]), width);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
    for (size_t i = 0; i < chunks.size(); ++i) {
      if (failures[i]) std::rethrow_exception(failures[i]);
      sink(packed[i]);
      count += static_cast<int64_t>(packed[i].size() / bytes_of(width));
    }
    if (progress) progress(static_cast<int64_t>(at), static_cast<int64_t>(text.size()));
  }
  return count;
}

}  // namespace ridge::text
