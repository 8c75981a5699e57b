// SPDX-License-Identifier: Apache-2.0
// One scanner per pattern. The alternatives are tried in the pattern's order; each is a run of one
// class, so nothing backtracks further than one character.
#include "text/pretokenizer.h"

#include <array>

#include "text/utf8.h"

namespace ridge::text {
namespace {

struct NamedPreTokenizer {
  PreTokenizer kind;
  std::string_view name;
};
constexpr std::array<NamedPreTokenizer, 5> kPreTokenizers = {{{PreTokenizer::kNone, "none"},
                                                              {PreTokenizer::kGpt2, "gpt2"},
                                                              {PreTokenizer::kLlama3, "llama3"},
                                                              {PreTokenizer::kSmolLm, "smollm"},
                                                              {PreTokenizer::kQwen2, "qwen2"}}};

constexpr std::array<CharClass, 128> ascii_classes() {
  std::array<CharClass, 128> classes{};
  for (int c = 0; c < 128; ++c) {
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    bool space = c == ' ' || (c >= '\t' && c <= '\r');
    classes[c] = letter                 ? CharClass::kLetter
                 : c >= '0' && c <= '9' ? CharClass::kNumber
                 : space                ? CharClass::kSpace
                                        : CharClass::kOther;
  }
  return classes;
}
constexpr std::array<CharClass, 128> kAscii = ascii_classes();

// Class and size of the character at a position in the text. At the end of the text the size is 0
// and nothing matches.
struct Char {
  CharClass cls;
  uint8_t size;

  bool is(CharClass c) const { return size != 0 && cls == c; }
};

class Scanner {
 public:
  Scanner(std::string_view text, size_t at) : text_(text), at_(at), first_(at_char(at)) {}

  size_t gpt2() const {
    if (size_t end = contraction(false)) return end;
    if (first_.cls != CharClass::kSpace) return run_end(at_, first_.cls);
    Char next = at_char(at_ + first_.size);
    if (text_[at_] == ' ' && next.size != 0 && next.cls != CharClass::kSpace)
      return run_end(at_ + 1, next.cls);
    return space_end(false);
  }

  size_t smollm() const {
    if (first_.cls == CharClass::kNumber) return at_ + first_.size;
    if (size_t end = contraction(false)) return end;
    if (first_.cls != CharClass::kSpace) return run_end(at_, first_.cls);
    Char next = at_char(at_ + first_.size);
    if (text_[at_] == ' ' && (next.is(CharClass::kLetter) || next.is(CharClass::kOther)))
      return run_end(at_ + 1, next.cls);
    return space_end(true);
  }

  // Llama 3's pattern; Qwen 2's is the same with numbers of one digit.
  size_t llama3(int most_digits) const {
    if (size_t end = contraction(true)) return end;
    if (first_.cls == CharClass::kLetter) return run_end(at_, CharClass::kLetter);
    if (first_.cls == CharClass::kNumber) return number_end(most_digits);
    Char next = at_char(at_ + first_.size);
    if (!is_line_break(at_) && next.is(CharClass::kLetter))
      return run_end(at_ + first_.size, CharClass::kLetter);
    if (first_.cls == CharClass::kOther) return with_line_breaks(run_end(at_, CharClass::kOther));
    if (text_[at_] == ' ' && next.is(CharClass::kOther))
      return with_line_breaks(run_end(at_ + 1, CharClass::kOther));
    return space_or_lines_end();
  }

 private:
  Char at_char(size_t at) const {
    if (at >= text_.size()) return {CharClass::kOther, 0};
    auto byte = static_cast<uint8_t>(text_[at]);
    if (byte < 0x80) return {kAscii[byte], 1};
    CodePoint c = decode_utf8(text_, at);
    return {c.valid ? char_class(c.value) : CharClass::kOther, c.size};
  }

  size_t run_end(size_t at, CharClass cls) const {
    for (Char c = at_char(at); c.is(cls); c = at_char(at)) at += c.size;
    return at;
  }

  bool is_line_break(size_t at) const {
    return at < text_.size() && (text_[at] == '\r' || text_[at] == '\n');
  }

  size_t with_line_breaks(size_t at) const {
    while (is_line_break(at)) ++at;
    return at;
  }

  size_t number_end(int most_digits) const {
    size_t at = at_;
    for (int i = 0; i < most_digits; ++i) {
      Char c = at_char(at);
      if (!c.is(CharClass::kNumber)) break;
      at += c.size;
    }
    return at;
  }

  // The end of a contraction: an apostrophe followed by s, t, m, d, re, ve or ll. 0 if there is
  // none. Without regard to case, U+017F is an s too.
  size_t contraction(bool any_case) const {
    if (text_[at_] != '\'') return 0;
    auto letter = [&](size_t i) -> char {
      if (at_ + i >= text_.size()) return '\0';
      char c = text_[at_ + i];
      return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
    constexpr std::string_view kLongS = "\xC5\xBF";
    if (any_case && text_.substr(at_ + 1, 2) == kLongS) return at_ + 3;
    char a = letter(1);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return at_ + 2;
    char b = letter(2);
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return at_ + 3;
    return 0;
  }

  // \s+(?!\S)|\s+: the end of the run of spaces. If text follows, the last of several characters
  // belongs to the next piece.
  size_t space_end(bool number_ends_text) const {
    size_t last = at_;
    size_t end = at_;
    for (Char c = first_; c.is(CharClass::kSpace); c = at_char(end)) {
      last = end;
      end += c.size;
    }
    bool at_text_end =
        end == text_.size() || (number_ends_text && at_char(end).is(CharClass::kNumber));
    return at_text_end || last == at_ ? end : last;
  }

  // \s*[\r\n]+ first: the end of the last line break in the run.
  size_t space_or_lines_end() const {
    size_t after_break = 0;
    size_t end = at_;
    for (Char c = first_; c.is(CharClass::kSpace); c = at_char(end)) {
      if (is_line_break(end)) after_break = end + 1;
      end += c.size;
    }
    return after_break != 0 ? after_break : space_end(false);
  }

  std::string_view text_;
  size_t at_;
  Char first_;
};

}  // namespace

std::string_view name(PreTokenizer kind) { return kPreTokenizers[static_cast<size_t>(kind)].name; }

std::optional<PreTokenizer> parse_pre_tokenizer(std::string_view name) {
  for (const NamedPreTokenizer& each : kPreTokenizers)
    if (each.name == name) return each.kind;
  return std::nullopt;
}

std::string pre_tokenizer_names() {
  std::string list;
  for (size_t i = 0; i < kPreTokenizers.size(); ++i)
    list.append(i == 0                           ? ""
                : i + 1 == kPreTokenizers.size() ? " or "
                                                 : ", ")
        .append(kPreTokenizers[i].name);
  return list;
}

size_t piece_end(PreTokenizer kind, std::string_view text, size_t at) {
  switch (kind) {
    case PreTokenizer::kGpt2:
      return Scanner(text, at).gpt2();
    case PreTokenizer::kLlama3:
      return Scanner(text, at).llama3(3);
    case PreTokenizer::kQwen2:
      return Scanner(text, at).llama3(1);
    case PreTokenizer::kSmolLm:
      return Scanner(text, at).smollm();
    case PreTokenizer::kNone:
      break;
  }
  return text.size();
}

}  // namespace ridge::text
