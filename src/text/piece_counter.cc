// SPDX-License-Identifier: Apache-2.0
// Counts chunks of a text on all threads, each thread in its own table, then joins the tables.
#include "text/piece_counter.h"

#include <omp.h>

#include <algorithm>
#include <atomic>

#include "base/error.h"
#include "text/pair_table.h"

namespace ridge::text {
namespace {

// Long enough to amortize a dispatch, short enough to balance the threads.
constexpr size_t kChunkBytes = size_t{1} << 18;

std::vector<std::pair<std::string_view, int32_t>> with_ids(const std::vector<std::string>& tokens) {
  std::vector<std::pair<std::string_view, int32_t>> out;
  for (const std::string& token : tokens) out.emplace_back(token, static_cast<int32_t>(out.size()));
  return out;
}

}  // namespace

void PieceTable::add(std::string_view piece, int64_t count) {
  if ((entries_.size() + 1) * 2 > slots_.size()) grow();
  uint64_t hash = hash_bytes(piece);
  size_t mask = slots_.size() - 1;
  size_t i = hash & mask;
  for (; slots_[i] != 0; i = (i + 1) & mask) {
    StoredPiece& entry = entries_[slots_[i] - 1];
    if (entry.hash == hash && entry.size == piece.size() &&
        std::string_view(bytes_).substr(entry.begin, entry.size) == piece) {
      entry.count += count;
      return;
    }
  }
  entries_.push_back({hash, bytes_.size(), piece.size(), count});
  bytes_.append(piece);
  slots_[i] = static_cast<uint32_t>(entries_.size());
}

void PieceTable::grow() {
  slots_.assign(slots_.size() * 2, 0);
  size_t mask = slots_.size() - 1;
  for (size_t e = 0; e < entries_.size(); ++e) {
    size_t i = entries_[e].hash & mask;
    while (slots_[i] != 0) i = (i + 1) & mask;
    slots_[i] = static_cast<uint32_t>(e + 1);
  }
}

std::vector<CountedPiece> PieceTable::pieces() const {
  std::vector<CountedPiece> out;
  out.reserve(entries_.size());
  for (const StoredPiece& entry : entries_)
    out.push_back({std::string_view(bytes_).substr(entry.begin, entry.size), entry.count});
  return out;
}

PieceCounter::PieceCounter(PreTokenizer pre_tokenizer,
                           const std::vector<std::string>& special_tokens)
    : pre_tokenizer_(pre_tokenizer), special_(with_ids(special_tokens)) {}

void PieceCounter::count(std::string_view text, PieceTable& table) const {
  for (size_t at = 0; at < text.size();) {
    size_t end = piece_end(pre_tokenizer_, text, at);
    table.add(text.substr(at, end - at), 1);
    at = end;
  }
}

// Ends a chunk at a space after a printable ASCII character, where all pre-tokenizers begin a
// piece.
size_t PieceCounter::chunk_end(std::string_view text, size_t at) const {
  if (pre_tokenizer_ == PreTokenizer::kNone) return text.size();
  for (size_t i = at + kChunkBytes; i < text.size(); ++i)
    if (text[i] == ' ' && text[i - 1] > ' ' && text[i - 1] < 0x7F) return i;
  return text.size();
}

void PieceCounter::add(std::string_view text,
                       const std::function<void(int64_t, int64_t)>& progress) {
  std::vector<std::string_view> chunks;
  auto cut = [&](std::string_view stretch) {
    for (size_t at = 0; at < stretch.size();) {
      size_t end = chunk_end(stretch, at);
      chunks.push_back(stretch.substr(at, end - at));
      at = end;
    }
  };
  size_t at = 0;
  for (const SpecialMatch& match : special_.find(text)) {
    cut(text.substr(at, match.begin - at));
    at = match.begin + match.size;
  }
  cut(text.substr(at));

  auto total = static_cast<int64_t>(text.size());
  size_t threads = std::clamp<size_t>(chunks.size(), 1, static_cast<size_t>(omp_get_max_threads()));
  std::vector<PieceTable> tables(threads);
  std::atomic<int64_t> done{0};
#pragma omp parallel for schedule(dynamic, 1) num_threads(static_cast <int>(threads))
  for (size_t i = 0; i < chunks.size(); ++i) {
    auto thread = static_cast<size_t>(omp_get_thread_num());
    count(chunks[i], tables[thread]);
    int64_t now = done += static_cast<int64_t>(chunks[i].size());
    if (thread == 0 && progress) progress(now, total);
  }
  for (const PieceTable& table : tables)
    for (const CountedPiece& piece : table.pieces()) table_.add(piece.bytes, piece.count);
}

}  // namespace ridge::text
