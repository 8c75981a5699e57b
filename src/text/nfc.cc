// SPDX-License-Identifier: Apache-2.0
// Copies what NFC leaves alone, and normalizes the spans between. utf8proc decomposes and composes;
// marks are sorted here, because its own sort takes quadratic time.
#include "text/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "text/utf8.h"

namespace ridge::text {
namespace {

struct CodePointRange {
  char32_t first, last;
};
// Characters of combining class 0 whose NFC is the character, and that are not the second of any
// composition. Not all of them: the scripts of most text. Unicode's stability policy keeps them so.
constexpr std::array<CodePointRange, 27> kInert = {{
    {0x0000, 0x02FF},                    // Latin
    {0x0370, 0x0373},                    // Greek, without marks that are other characters
    {0x0388, 0x03FF}, {0x0400, 0x0482},  // Cyrillic
    {0x048A, 0x052F}, {0x0531, 0x058A},  // Armenian
    {0x05D0, 0x05EA},                    // Hebrew
    {0x0620, 0x064A},                    // Arabic
    {0x0660, 0x066F}, {0x0671, 0x06D5}, {0x0905, 0x0939},  // Devanagari
    {0x0966, 0x0970}, {0x0E01, 0x0E30},                    // Thai
    {0x10D0, 0x10FF},                                      // Georgian
    {0x1E00, 0x1EF9},                                      // Latin, for instance Vietnamese
    {0x2010, 0x2027},                                      // punctuation
    {0x2030, 0x205E}, {0x20A0, 0x20C0},                    // currencies
    {0x2190, 0x2328},                                      // arrows, mathematics
    {0x2460, 0x2ADB},                                      // enclosed numbers, boxes, dingbats
    {0x3001, 0x3029},  // Chinese, Japanese and Korean: punctuation, kana, ideographs, Hangul
    {0x3041, 0x3096}, {0x309B, 0x30FF}, {0x3400, 0x4DBF},
    {0x4E00, 0x9FFF}, {0xAC00, 0xD7A3}, {0xFF01, 0xFF60},
}};
constexpr CodePointRange kEmoji = {0x1F300, 0x1FAFF};

// A code point is invalid if its bytes are; then it stays apart.
bool is_inert(const CodePoint& c) { return !c.valid || is_nfc_inert(c.value); }

int combining_class(utf8proc_int32_t value) {
  return utf8proc_get_property(value)->combining_class;
}

// Appends the NFC of valid UTF-8.
class Normalizer {
 public:
  void append(std::string& out, std::string_view text) {
    decompose(text);
    sort_marks();
    const utf8proc_ssize_t size = utf8proc_normalize_utf32(
        buffer_.data(), static_cast<utf8proc_ssize_t>(buffer_.size()),
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    RIDGE_CHECK(size >= 0, "utf8proc composed nothing: {}", utf8proc_errmsg(size));
    for (utf8proc_ssize_t i = 0; i < size; ++i)
      append_utf8(out, static_cast<char32_t>(buffer_[static_cast<size_t>(i)]));
  }

 private:
  void decompose(std::string_view text) {
    constexpr size_t kMost = 32;  // the longest canonical decomposition has 4 characters
    buffer_.clear();
    for (size_t at = 0; at < text.size();) {
      const CodePoint c = decode_utf8(text, at);
      at += c.size;
      const size_t begin = buffer_.size();
      buffer_.resize(begin + kMost);
      int last_boundary = 0;
      const utf8proc_ssize_t made = utf8proc_decompose_char(
          static_cast<utf8proc_int32_t>(c.value), buffer_.data() + begin, kMost,
          static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE), &last_boundary);
      RIDGE_CHECK(made >= 0 && made <= static_cast<utf8proc_ssize_t>(kMost),
                  "utf8proc decomposed U+{:04X} into {}", static_cast<uint32_t>(c.value), made);
      buffer_.resize(begin + static_cast<size_t>(made));
    }
  }

  // The canonical order: each run of marks by their classes, equal classes as they stand.
  void sort_marks() {
    auto is_mark = [](utf8proc_int32_t value) { return combining_class(value) != 0; };
    for (auto begin = buffer_.begin(); begin != buffer_.end();) {
      begin = std::find_if(begin, buffer_.end(), is_mark);
      const auto end = std::find_if_not(begin, buffer_.end(), is_mark);
      std::stable_sort(begin, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
        return combining_class(a) < combining_class(b);
      });
      begin = end;
    }
  }

  std::vector<utf8proc_int32_t> buffer_;
};

}  // namespace

bool is_nfc_inert(char32_t value) {
  if (value <= kInert[0].last) return true;
  if (value >= kEmoji.first) return value <= kEmoji.last;
  const auto* after =
      std::upper_bound(kInert.begin(), kInert.end(), value,
                       [](char32_t v, const CodePointRange& r) { return v < r.first; });
  return value <= (after - 1)->last;
}

std::optional<std::string> to_nfc(std::string_view text) {
  std::optional<std::string> out;
  Normalizer normalizer;
  size_t copied = 0;    // text before it is in the output, once there is one
  size_t previous = 0;  // the character before `at`; the text before it is separate
  for (size_t at = 0; at < text.size();) {
    if (static_cast<uint8_t>(text[at]) < 0x80) {
      previous = at++;
      continue;
    }
    const CodePoint c = decode_utf8(text, at);
    if (is_inert(c)) {
      previous = at;
      at += c.size;
      continue;
    }
    // From the character that this one may combine with to the next that combines with nothing
    // before it.
    size_t begin = previous, end = at;
    if (begin < at && !decode_utf8(text, begin).valid) begin = at;
    while (end < text.size()) {
      const CodePoint next = decode_utf8(text, end);
      if (is_inert(next)) break;
      end += next.size;
    }
    const std::string_view span = text.substr(begin, end - begin);
    std::string made;
    normalizer.append(made, span);
    if (made != span) {
      if (!out) out.emplace().reserve(text.size() + text.size() / 8);
      out->append(text, copied, begin - copied).append(made);
      copied = end;
    }
    previous = at = end;
  }
  if (out) out->append(text, copied);
  return out;
}

}  // namespace ridge::text
