// SPDX-License-Identifier: Apache-2.0
// Collects jobs until there are a few for each thread, then encodes them in parallel.
#include "text/token_stream.h"

#include <omp.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace ridge::text {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 18;
constexpr size_t kPiecesPerThread = 4;  // enough to balance the threads

// Where a text without a safe cut is cut: after a line, or before a character.
size_t forced_cut(std::string_view text, size_t most) {
  const size_t line = text.rfind('\n', most - 1);
  if (line != std::string_view::npos && line > 0) return line + 1;
  size_t at = most;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return at == 0 ? most : at;
}

}  // namespace

TokenStream::TokenStream(const Tokenizer& tokenizer, const EncodeOptions& options, Sink sink)
    : tokenizer_(tokenizer), options_(options), sink_(std::move(sink)) {}

size_t TokenStream::next_cut() {
  if (waiting_.size() <= kPieceBytes) return 0;
  const size_t cut = tokenizer_.safe_cut(waiting_, std::max(searched_, kPieceBytes));
  if (cut < waiting_.size() && cut <= kLongestBytes) return cut;
  searched_ = waiting_.size();
  if (waiting_.size() > kLongestBytes) return forced_cut(waiting_, kLongestBytes);
  return 0;
}

void TokenStream::push(size_t size, bool ends, int64_t place, int64_t input) {
  if (jobs_.empty() || jobs_.back().text.size() + size > kPieceBytes) jobs_.emplace_back();
  Job& job = jobs_.back();
  Piece piece;
  piece.begin = job.text.size();
  piece.end = piece.begin + size;
  piece.begins = !has_begun_;
  piece.ends = ends;
  piece.place = place;
  piece.input = input;
  piece.options = options_;
  piece.options.add_bos = options_.add_bos && piece.begins;
  piece.options.add_eos = options_.add_eos && ends;
  piece.options.continuation = !piece.begins;
  job.text.append(waiting_, 0, size);
  job.pieces.push_back(std::move(piece));
  waiting_.erase(0, size);
  searched_ = 0;
  has_begun_ = true;
  held_bytes_ += size;
  if (held_bytes_ >= static_cast<size_t>(omp_get_max_threads()) * kPiecesPerThread * kPieceBytes)
    run();
}

void TokenStream::add(const TextPart& part) {
  if (!in_document_) has_begun_ = !part.begins;
  in_document_ = !part.ends;
  waiting_ += part.text;
  while (const size_t cut = next_cut()) {
    const auto left = static_cast<int64_t>(waiting_.size() - cut);
    push(cut, false, part.is_verbatim ? part.place - left : -1, part.input);
  }
  if (!part.ends) return;
  push(waiting_.size(), true, part.place, part.input);
}

void TokenStream::encode(Job& job) const {
  const std::string_view text = job.text;
  for (Piece& piece : job.pieces)
    piece.ids = tokenizer_.encode(text.substr(piece.begin, piece.end - piece.begin), piece.options);
}

void TokenStream::run() {
  std::vector<std::exception_ptr> failures(jobs_.size());
#pragma omp parallel for schedule(dynamic, 1)
  for (size_t i = 0; i < jobs_.size(); ++i) {
    try {
      encode(jobs_[i]);
    } catch (...) {
      failures[i] = std::current_exception();
    }
  }
  for (size_t i = 0; i < jobs_.size(); ++i) {
    if (failures[i]) std::rethrow_exception(failures[i]);
    for (const Piece& piece : jobs_[i].pieces)
      sink_({piece.ids, piece.begins, piece.ends, piece.place, piece.input});
  }
  jobs_.clear();
  held_bytes_ = 0;
}

void TokenStream::flush() { run(); }

}  // namespace ridge::text
