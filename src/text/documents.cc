// SPDX-License-Identifier: Apache-2.0
// The JSON of a line is parsed by hand, because a string of a gigabyte must pass in parts.
#include "text/documents.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/printable.h"
#include "text/checked_reader.h"
#include "text/utf8.h"

namespace ridge::text {
namespace {

constexpr size_t kPartBytes = size_t{1} << 18;
constexpr int kMaxDepth = 256;                    // lists and objects nest no deeper
constexpr size_t kMaxKeyBytes = size_t{1} << 16;  // more cannot be the field's name

class JsonLines {
 public:
  JsonLines(files::ByteStream& stream, const std::string& field, const TextSink& sink)
      : reader_(stream), field_(field), sink_(sink) {}

  void read() {
    for (int64_t line = 1; !at_end(); ++line) {
      line_ = line;
      skip_space();
      if (at_end()) return;
      if (peek() != '\n') read_object();
      skip_space();
      if (!at_end() && get() != '\n') throw fault("the end of the line");
    }
  }

 private:
  Error fault(const std::string& expected) const {
    return file_error("[{}] line {}, byte {}: expected {}", reader_.source(), line_,
                      place_ - static_cast<int64_t>(piece_.size() - at_), expected);
  }

  bool at_end() {
    if (at_ < piece_.size()) return false;
    piece_ = reader_.next();
    place_ = reader_.place();
    at_ = 0;
    return piece_.empty();
  }
  char peek() {
    if (at_end()) throw fault("more of the line, found the end of the file");
    return piece_[at_];
  }
  char get() {
    const char c = peek();
    ++at_;
    return c;
  }
  int64_t place() const { return place_ - static_cast<int64_t>(piece_.size() - at_); }
  // Spaces inside a line.
  void skip_space() {
    while (!at_end() && (piece_[at_] == ' ' || piece_[at_] == '\t' || piece_[at_] == '\r')) ++at_;
  }
  void expect(char c) {
    if (peek() != c) throw fault(fmt::format("'{}'", c));
    ++at_;
  }

  void read_object() {
    bool is_found = false;
    expect('{');
    skip_space();
    if (peek() == '}') throw no_field();
    for (;;) {
      std::string key;
      read_string([&](std::string_view part) {
        if (key.size() < kMaxKeyBytes) key += part;
      });
      skip_space();
      expect(':');
      skip_space();
      if (key == field_) {
        if (is_found) throw fault(fmt::format("the key {} once", printable(field_)));
        is_found = true;
        read_document();
      } else {
        skip_value(0);
      }
      skip_space();
      if (peek() != ',') break;
      ++at_;
      skip_space();
    }
    expect('}');
    if (!is_found) throw no_field();
    // The document ends where the line does, so that a later run can begin there.
    skip_space();
    sink_({buffer_, begins_, true, place() + (at_end() ? 0 : 1), false});
    buffer_.clear();
  }
  Error no_field() const {
    return file_error("[{}] line {}: expected the key {}, found none", reader_.source(), line_,
                      printable(field_));
  }

  void read_document() {
    if (peek() != '"') throw fault(fmt::format("a string under {}", printable(field_)));
    begins_ = true;
    buffer_.clear();
    read_string([&](std::string_view part) {
      buffer_ += part;
      if (buffer_.size() < kPartBytes) return;
      sink_({buffer_, begins_, false, place(), false});
      begins_ = false;
      buffer_.clear();
    });
  }

  template <typename Put>
  void read_string(const Put& put) {
    expect('"');
    for (;;) {
      peek();
      const size_t begin = at_;
      while (at_ < piece_.size() && piece_[at_] != '"' && piece_[at_] != '\\' &&
             static_cast<uint8_t>(piece_[at_]) >= ' ')
        ++at_;
      if (at_ > begin) put(piece_.substr(begin, at_ - begin));
      if (at_ == piece_.size()) continue;
      const char c = piece_[at_];
      if (c == '"') break;
      if (c != '\\') throw fault("no control character in a string");
      ++at_;
      put(escaped());
    }
    ++at_;
  }

  std::string escaped() {
    const char c = get();
    switch (c) {
      case '"':
      case '\\':
      case '/':
        return {c};
      case 'b':
        return "\b";
      case 'f':
        return "\f";
      case 'n':
        return "\n";
      case 'r':
        return "\r";
      case 't':
        return "\t";
      case 'u':
        break;
      default:
        throw fault("an escape sequence of JSON");
    }
    char32_t value = four_digits();
    constexpr char32_t kHigh = 0xD800, kLow = 0xDC00, kAfter = 0xE000;
    if (value >= kHigh && value < kLow) {
      if (get() != '\\' || get() != 'u') throw fault("the second half of a surrogate pair");
      const char32_t low = four_digits();
      if (low < kLow || low >= kAfter) throw fault("the second half of a surrogate pair");
      value = 0x10000 + ((value - kHigh) << 10) + (low - kLow);
    } else if (value >= kLow && value < kAfter) {
      throw fault("the first half of a surrogate pair before the second");
    }
    std::string out;
    append_utf8(out, value);
    return out;
  }

  char32_t four_digits() {
    char32_t value = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = get();
      if (std::isxdigit(static_cast<unsigned char>(c)) == 0) throw fault("four hexadecimal digits");
      value = value * 16 + static_cast<char32_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return value;
  }

  void skip_value(int depth) {
    if (depth > kMaxDepth) throw fault(fmt::format("at most {} nested values", kMaxDepth));
    const char c = peek();
    if (c == '"') return read_string([](std::string_view) {});
    if (c == '{' || c == '[') return skip_list(c == '{', depth);
    if (c == '-' || std::isdigit(static_cast<unsigned char>(c)) != 0) return skip_number();
    for (const std::string_view word : {"true", "false", "null"})
      if (word[0] == c) {
        for (const char letter : word) expect(letter);
        return;
      }
    throw fault("a value");
  }

  void skip_list(bool is_object, int depth) {
    const char end = is_object ? '}' : ']';
    ++at_;
    skip_space();
    if (peek() == end) {
      ++at_;
      return;
    }
    for (;;) {
      if (is_object) {
        read_string([](std::string_view) {});
        skip_space();
        expect(':');
        skip_space();
      }
      skip_value(depth + 1);
      skip_space();
      if (peek() == end) break;
      expect(',');
      skip_space();
    }
    ++at_;
  }

  void skip_digits() {
    if (std::isdigit(static_cast<unsigned char>(peek())) == 0) throw fault("a digit");
    while (!at_end() && std::isdigit(static_cast<unsigned char>(piece_[at_])) != 0) ++at_;
  }
  void skip_number() {
    if (peek() == '-') ++at_;
    if (peek() == '0')
      ++at_;
    else
      skip_digits();
    if (!at_end() && piece_[at_] == '.') {
      ++at_;
      skip_digits();
    }
    if (at_end() || (piece_[at_] | 0x20) != 'e') return;
    ++at_;
    if (peek() == '+' || peek() == '-') ++at_;
    skip_digits();
  }

  CheckedReader reader_;
  const std::string& field_;
  const TextSink& sink_;
  std::string_view piece_;
  size_t at_ = 0;
  int64_t place_ = 0;  // the piece ends there
  int64_t line_ = 0;
  std::string buffer_;  // it holds the document's text
  bool begins_ = false;
};

}  // namespace

void read_text(files::ByteStream& stream, const DocumentStart& start, const TextSink& sink) {
  stream.skip(start.place);
  CheckedReader reader(stream);
  bool begins = !start.continues;
  for (;;) {
    const std::string_view piece = reader.next();
    sink({piece, begins, piece.empty(), reader.place(), true});
    begins = false;
    if (piece.empty()) return;
  }
}

void read_json_lines(files::ByteStream& stream,
                     const std::string& field,
                     const DocumentStart& start,
                     const TextSink& sink) {
  stream.skip(start.place);
  JsonLines(stream, field, sink).read();
}

}  // namespace ridge::text
