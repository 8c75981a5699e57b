// SPDX-License-Identifier: Apache-2.0
// Splits a stream into documents: a text file is one document, each line of a JSON Lines file is
// one. Documents of any length pass in parts; memory is bounded.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "files/byte_stream.h"

namespace ridge::text {

struct TextPart {
  std::string_view text;
  bool begins = false;  // the first part of a document
  bool ends = false;    // the last one
  // The place in the stream after this part.
  int64_t place = 0;
  // Whether the text is as in the stream, so that each of its bytes has a place there.
  bool is_verbatim = false;
  int64_t input = 0;  // which of several streams, as the caller counts them
};
using TextSink = std::function<void(const TextPart&)>;

// Where reading begins: at the start, or at a place where an earlier run ended.
struct DocumentStart {
  int64_t place = 0;
  bool continues = false;  // the place is inside a document
};

// Each throws a bad-file Error that names the file and the place: bytes that are not UTF-8 and, for
// JSON Lines, bad grammar (with the line), a line without the field or with another type in it.
void read_text(files::ByteStream& stream, const DocumentStart& start, const TextSink& sink);
// A document is the string that the object of a line has under `field`.
void read_json_lines(files::ByteStream& stream,
                     const std::string& field,
                     const DocumentStart& start,
                     const TextSink& sink);

}  // namespace ridge::text
