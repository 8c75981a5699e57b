// SPDX-License-Identifier: Apache-2.0
// UTF-8 decoding by Unicode's table of well-formed sequences, and character classes from PCRE2's
// property tables.
#include "text/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <atomic>
#include <memory>

#include "base/error.h"

namespace ridge::text {
namespace {

// Length of the sequence that a lead byte begins, and the range of its second byte.
struct Lead {
  uint8_t size;
  uint8_t low;
  uint8_t high;
};

constexpr Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};  // a continuation byte, or the start of an overlong form
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};  // the surrogates are above
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// Number of bytes at `at` that are a prefix of some well-formed sequence: all of it, or the maximal
// invalid part.
size_t well_formed_prefix(std::string_view text, size_t at, Lead lead) {
  size_t length = 1;
  while (length < lead.size && at + length < text.size()) {
    auto byte = static_cast<uint8_t>(text[at + length]);
    uint8_t low = length == 1 ? lead.low : 0x80;
    uint8_t high = length == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) break;
    ++length;
  }
  return length;
}

constexpr char32_t kPageSize = 256;
constexpr char32_t kPages = 0x110000 / kPageSize;
using Page = std::array<CharClass, kPageSize>;

// A property pattern, compiled once. PCRE2 has the Unicode tables, so Ridge needs none.
class Property {
 public:
  explicit Property(const char* pattern) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED, PCRE2_UTF,
                          &error, &offset, nullptr);
    RIDGE_CHECK(code_ != nullptr, "PCRE2 refused {} (error {})", pattern, error);
  }
  ~Property() { pcre2_code_free(code_); }
  Property(const Property&) = delete;
  Property& operator=(const Property&) = delete;

  // Calls found(begin, end) for each run of characters in `subject` that have the property.
  template <typename Found>
  void for_each_run(const std::string& subject, Found found) const {
    pcre2_match_data* match = pcre2_match_data_create_from_pattern(code_, nullptr);
    size_t at = 0;
    while (at < subject.size() &&
           pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(subject.data()), subject.size(), at,
                       PCRE2_NO_UTF_CHECK, match, nullptr) > 0) {
      const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match);
      found(bounds[0], bounds[1]);
      at = bounds[1];
    }
    pcre2_match_data_free(match);
  }

 private:
  pcre2_code* code_;
};

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

std::unique_ptr<Page> build_page(char32_t first) {
  static const Property letters("\\p{L}+");
  static const Property numbers("\\p{N}+");
  auto page = std::make_unique<Page>();
  page->fill(CharClass::kOther);
  if (first >= 0xD800 && first < 0xE000) return page;  // surrogates never come out of decode_utf8
  std::string subject;
  std::array<size_t, kPageSize + 1> begin{};
  for (char32_t i = 0; i < kPageSize; ++i) {
    begin[i] = subject.size();
    append_utf8(subject, first + i);
  }
  begin[kPageSize] = subject.size();
  auto mark = [&](const Property& property, CharClass value) {
    size_t i = 0;
    property.for_each_run(subject, [&](size_t from, size_t to) {
      while (begin[i] < from) ++i;
      for (; begin[i] < to; ++i) (*page)[i] = value;
    });
  };
  mark(letters, CharClass::kLetter);
  mark(numbers, CharClass::kNumber);
  for (char32_t i = 0; i < kPageSize; ++i)
    if (is_white_space(first + i)) (*page)[i] = CharClass::kSpace;
  return page;
}

// Pages live as long as the process. If two threads build the same page at once, one of the two is
// kept.
const Page& page_of(char32_t index) {
  static std::array<std::atomic<const Page*>, kPages> pages{};
  const Page* page = pages[index].load(std::memory_order_acquire);
  if (page != nullptr) [[likely]]
    return *page;
  std::unique_ptr<Page> built = build_page(index * kPageSize);
  if (pages[index].compare_exchange_strong(page, built.get(), std::memory_order_acq_rel))
    return *built.release();
  return *page;
}

}  // namespace

CodePoint decode_utf8(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
  uint8_t first = byte(0);
  if (first < 0x80) return {first, 1, true};
  Lead lead = lead_of(first);
  if (lead.size == 0 || well_formed_prefix(text, at, lead) < lead.size)
    return {kReplacement, 1, false};
  char32_t value = first & (0x7Fu >> lead.size);
  for (size_t i = 1; i < lead.size; ++i) value = (value << 6) | (byte(i) & 0x3Fu);
  return {value, lead.size, true};
}

bool is_valid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    CodePoint c = decode_utf8(text, at);
    if (!c.valid) return false;
    at += c.size;
  }
  return true;
}

size_t incomplete_suffix_bytes(std::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    size_t at = text.size() - back;
    auto byte = static_cast<uint8_t>(text[at]);
    if (byte < 0x80) return 0;
    if (byte < 0xC0) continue;
    Lead lead = lead_of(byte);
    return lead.size > back && well_formed_prefix(text, at, lead) == back ? back : 0;
  }
  return 0;
}

void append_utf8(std::string& out, char32_t value) {
  auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (value < 0x80) {
    put(value);
  } else if (value < 0x800) {
    put(0xC0 | (value >> 6));
    put(0x80 | (value & 0x3F));
  } else if (value < 0x10000) {
    put(0xE0 | (value >> 12));
    put(0x80 | ((value >> 6) & 0x3F));
    put(0x80 | (value & 0x3F));
  } else {
    put(0xF0 | (value >> 18));
    put(0x80 | ((value >> 12) & 0x3F));
    put(0x80 | ((value >> 6) & 0x3F));
    put(0x80 | (value & 0x3F));
  }
}

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    CodePoint c = decode_utf8(text, at);
    if (c.valid) {
      out.append(text, at, c.size);
      at += c.size;
    } else {
      out.append(kReplacementUtf8);
      Lead lead = lead_of(static_cast<uint8_t>(text[at]));
      at += lead.size == 0 ? 1 : well_formed_prefix(text, at, lead);
    }
  }
  return out;
}

CharClass char_class(char32_t value) {
  if (value >= 0x110000) return CharClass::kOther;
  return page_of(value / kPageSize)[value % kPageSize];
}

}  // namespace ridge::text
