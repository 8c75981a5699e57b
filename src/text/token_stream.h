// SPDX-License-Identifier: Apache-2.0
// Encodes a stream of documents on all threads, in bounded memory.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "text/documents.h"
#include "text/tokenizer.h"

namespace ridge::text {

// The ids of a part of a document.
struct TokenPart {
  std::span<const int32_t> ids;
  bool begins = false;  // the first part of a document
  bool ends = false;    // the last one
  int64_t place = -1;   // in the stream, where a later run can begin; -1: not here
  int64_t input = 0;    // the stream
};

class TokenStream {
 public:
  using Sink = std::function<void(const TokenPart&)>;

  // `options` are those of each document. Parts are cut at the tokenizer's safe cuts, so the ids
  // are those of one call of encode. Only a text that has none for kLongestBytes is cut elsewhere:
  // at a line end or, if there is none, before a character.
  TokenStream(const Tokenizer& tokenizer, const EncodeOptions& options, Sink sink);

  void add(const TextPart& part);
  void flush();  // passes on all that is left, at the end of the input

  static constexpr size_t kLongestBytes = size_t{2} << 20;

 private:
  struct Piece {
    size_t begin = 0, end = 0;  // in the job's text
    EncodeOptions options;
    bool begins = false, ends = false;
    int64_t place = -1;
    int64_t input = 0;
    std::vector<int32_t> ids = {};
  };
  // Pieces that one thread encodes, of about kPieceBytes together.
  struct Job {
    std::string text;
    std::vector<Piece> pieces;
  };

  // The end of the next piece of the text that waits; 0 if more text is needed.
  size_t next_cut();
  void push(size_t size, bool ends, int64_t place, int64_t input);
  void encode(Job& job) const;
  void run();

  const Tokenizer& tokenizer_;
  EncodeOptions options_;
  Sink sink_;
  std::string waiting_;  // text of the current document that is in no job yet
  size_t searched_ = 0;  // waiting_ has no cut before it
  bool in_document_ = false;
  bool has_begun_ = false;  // a job, or an earlier run, has the document's first part
  std::vector<Job> jobs_;
  size_t held_bytes_ = 0;  // the jobs hold so many
};

}  // namespace ridge::text
