// SPDX-License-Identifier: Apache-2.0
// The JSON of a line is parsed by hand, because a string of a gigabyte must pass in parts.
#include "text/documents.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "base/error.h"
#include "base/printable.h"
#include "text/utf8.h"

namespace ridge::text {
namespace {

constexpr size_t kPartBytes = size_t{1} << 18, kPieceBytes = size_t{1} << 18;
constexpr int kMaxDepth = 256;                    // lists and objects nest no deeper
constexpr size_t kMaxKeyBytes = size_t{1} << 16;  // more cannot be the field's name

// The first byte that is not part of a valid character, or the size.
size_t first_invalid(std::string_view text) {
  constexpr uint64_t kHighBits = 0x8080808080808080u;
  for (size_t at = 0; at < text.size();) {
    uint64_t eight = 0;
    if (at + sizeof eight <= text.size()) {
      std::memcpy(&eight, text.data() + at, sizeof eight);
      if ((eight & kHighBits) == 0) {
        at += sizeof eight;
        continue;
      }
    }
    const CodePoint c = decode_utf8(text, at);
    if (!c.valid) return at;
    at += c.size;
  }
  return text.size();
}

// Reads a stream of text in pieces and checks that it is UTF-8. An incomplete character at the end
// of a piece is kept for the next one.
class CheckedReader {
 public:
  explicit CheckedReader(files::ByteStream& stream) : stream_(stream) {}

  // The next piece, of whole characters; empty at the end. Valid until the next call. Throws a
  // bad-file Error with the place of a byte that is not UTF-8.
  std::string_view next();
  int64_t place() const { return place_; }  // the last piece ends there
  const std::string& source() const { return stream_.source(); }

 private:
  files::ByteStream& stream_;
  std::string buffer_;
  size_t size_ = 0;     // the piece has so many bytes
  size_t filled_ = 0;   // more than the piece if a character is incomplete
  int64_t place_ = -1;  // -1: nothing is read yet
};

std::string_view CheckedReader::next() {
  if (place_ < 0) {
    buffer_.resize(kPieceBytes);
    place_ = stream_.place();
  }
  const size_t kept = filled_ - size_;
  std::memmove(buffer_.data(), buffer_.data() + size_, kept);
  const size_t count = stream_.read(std::span(buffer_).subspan(kept));
  filled_ = kept + count;
  const std::string_view all = std::string_view(buffer_).substr(0, filled_);
  // At the end of the file nothing completes a character.
  size_ = filled_ - (filled_ == buffer_.size() ? incomplete_suffix_bytes(all) : 0);
  const size_t bad = first_invalid(all.substr(0, size_));
  if (bad < size_)
    throw file_error("[{}] expected UTF-8, found the byte 0x{:02x} at byte {}", source(),
                     static_cast<uint8_t>(all[bad]), place_ + static_cast<int64_t>(bad));
  place_ += static_cast<int64_t>(size_);
  return all.substr(0, size_);
}

// A place in a stream of JSON Lines, and the values that begin there. Each fault names the place.
class JsonCursor {
 public:
  explicit JsonCursor(files::ByteStream& stream) : reader_(stream) {}

  Error fault(const std::string& expected) const {
    return file_error("[{}] line {}, byte {}: expected {}", reader_.source(), line_, place(),
                      expected);
  }
  Error fault_of_line(const std::string& expected) const {
    return file_error("[{}] line {}: expected {}", reader_.source(), line_, expected);
  }
  int64_t place() const { return reader_.place() - static_cast<int64_t>(piece_.size() - at_); }

  bool at_end() {
    if (at_ < piece_.size()) return false;
    piece_ = reader_.next();
    at_ = 0;
    return piece_.empty();
  }
  char peek() {
    if (at_end()) throw fault("more of the line, found the end of the file");
    return piece_[at_];
  }
  void expect(char c) {
    if (peek() != c) throw fault(fmt::format("'{}'", c));
    ++at_;
  }
  // Takes the character if it is the next one.
  bool take(char c) {
    const bool is_next = !at_end() && piece_[at_] == c;
    at_ += is_next;
    return is_next;
  }
  // Takes spaces inside a line.
  void skip_space() {
    while (take(' ') || take('\t') || take('\r')) continue;
  }
  void end_line() {
    skip_space();
    if (!at_end() && !take('\n')) throw fault("the end of the line");
    ++line_;
  }

  // Calls read() at each member of an object or list.
  template <typename Read>
  void read_members(char begin, char end, const Read& read) {
    expect(begin);
    skip_space();
    if (take(end)) return;
    do {
      skip_space();
      read();
      skip_space();
    } while (take(','));
    expect(end);
  }

  // Calls put(part) with the parts of a string.
  template <typename Put>
  void read_string(const Put& put) {
    expect('"');
    while (peek() != '"') {
      const size_t begin = at_;
      while (at_ < piece_.size() && piece_[at_] != '"' && piece_[at_] != '\\' &&
             static_cast<uint8_t>(piece_[at_]) >= ' ')
        ++at_;
      if (at_ > begin)
        put(piece_.substr(begin, at_ - begin));
      else if (take('\\'))
        put(escaped());
      else
        throw fault("no control character in a string");
    }
    ++at_;
  }
  // Reads the key of an object's member, and takes the colon.
  std::string read_key() {
    std::string key;
    read_string([&](std::string_view part) {
      if (key.size() < kMaxKeyBytes) key += part;
    });
    skip_space();
    expect(':');
    skip_space();
    return key;
  }

  void skip_value(int depth) {
    if (depth > kMaxDepth) throw fault(fmt::format("at most {} nested values", kMaxDepth));
    const char c = peek();
    if (c == '"') return read_string([](std::string_view) {});
    if (c == '[') return read_members('[', ']', [&] { skip_value(depth + 1); });
    if (c == '{')
      return read_members('{', '}', [&] {
        read_key();
        skip_value(depth + 1);
      });
    if (c == '-' || is_digit(c)) return skip_number();
    for (const std::string_view word : {"true", "false", "null"})
      if (word[0] == c) {
        for (const char letter : word) expect(letter);
        return;
      }
    throw fault("a value");
  }

 private:
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  char get() {
    const char c = peek();
    ++at_;
    return c;
  }

  std::string escaped() {
    constexpr std::string_view kEscapes = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
    const char c = get();
    if (const size_t found = kEscapes.find(c); found != std::string_view::npos)
      return {kMeant[found]};
    if (c != 'u') throw fault("an escape sequence of JSON");
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

  void skip_digits() {
    if (!is_digit(peek())) throw fault("a digit");
    while (!at_end() && is_digit(piece_[at_])) ++at_;
  }
  void skip_number() {
    take('-');
    if (!take('0')) skip_digits();
    if (take('.')) skip_digits();
    if (!take('e') && !take('E')) return;
    if (!take('+')) take('-');
    skip_digits();
  }

  CheckedReader reader_;
  std::string_view piece_;
  size_t at_ = 0;
  int64_t line_ = 1;
};

// Passes on the document of each line.
class JsonLines {
 public:
  JsonLines(files::ByteStream& stream, const std::string& field, const TextSink& sink)
      : json_(stream), field_(field), sink_(sink) {}

  void read() {
    for (; !json_.at_end(); json_.end_line()) {
      json_.skip_space();
      if (json_.at_end()) return;
      if (json_.peek() != '\n') read_object();
    }
  }

 private:
  void read_object() {
    bool is_found = false;
    json_.read_members('{', '}', [&] {
      if (json_.read_key() != field_) return json_.skip_value(0);
      if (is_found) throw json_.fault(fmt::format("the key {} once", printable(field_)));
      is_found = true;
      read_document();
    });
    if (!is_found)
      throw json_.fault_of_line(
          fmt::format("the key {} (see --field), found none", printable(field_)));
    // The document ends where the line does, so that a later run can begin there.
    json_.skip_space();
    sink_({buffer_, begins_, true, json_.place() + (json_.at_end() ? 0 : 1), false});
    buffer_.clear();
  }

  void read_document() {
    if (json_.peek() != '"') throw json_.fault(fmt::format("a string under {}", printable(field_)));
    begins_ = true;
    buffer_.clear();
    json_.read_string([&](std::string_view part) {
      buffer_ += part;
      if (buffer_.size() < kPartBytes) return;
      sink_({buffer_, begins_, false, json_.place(), false});
      begins_ = false;
      buffer_.clear();
    });
  }

  JsonCursor json_;
  const std::string& field_;
  const TextSink& sink_;
  std::string buffer_;  // it holds the document's text
  bool begins_ = false;
};

}  // namespace

void read_text(files::ByteStream& stream, const DocumentStart& start, const TextSink& sink) {
  if (start.place > 0 && !start.continues) return;  // after its one document
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
