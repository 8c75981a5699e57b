// SPDX-License-Identifier: Apache-2.0
// Computes the alphabet at compile time from its rule, so there is no table to maintain.
#include "text/byte_alphabet.h"

#include "text/utf8.h"

namespace ridge::text {
namespace {

constexpr char32_t kFirstStandIn = 0x100;
constexpr size_t kStandIns = 68;  // bytes that do not print

constexpr bool prints(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<uint8_t, 256> order{};
  // Indexed by character; -1 outside the alphabet.
  std::array<int16_t, kFirstStandIn + kStandIns> byte_of{};
};

constexpr Alphabet make_alphabet() {
  Alphabet a;
  a.byte_of.fill(-1);
  size_t placed = 0;
  char32_t stand_in = kFirstStandIn;
  for (bool printing : {true, false}) {
    for (int byte = 0; byte < 256; ++byte) {
      if (prints(byte) != printing) continue;
      char32_t c = printing ? static_cast<char32_t>(byte) : stand_in++;
      a.character[byte] = c;
      a.byte_of[c] = static_cast<int16_t>(byte);
      a.order[placed++] = static_cast<uint8_t>(byte);
    }
  }
  return a;
}
constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

const std::array<char32_t, 256>& byte_alphabet() { return kAlphabet.character; }
const std::array<uint8_t, 256>& byte_alphabet_order() { return kAlphabet.order; }

std::string to_byte_alphabet(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() + bytes.size() / 4);
  for (char c : bytes) append_utf8(out, kAlphabet.character[static_cast<uint8_t>(c)]);
  return out;
}

std::optional<std::string> from_byte_alphabet(std::string_view written) {
  std::string out;
  out.reserve(written.size());
  for (size_t at = 0; at < written.size();) {
    CodePoint c = decode_utf8(written, at);
    if (!c.valid || c.value >= kAlphabet.byte_of.size() || kAlphabet.byte_of[c.value] < 0)
      return std::nullopt;
    out.push_back(static_cast<char>(kAlphabet.byte_of[c.value]));
    at += c.size;
  }
  return out;
}

}  // namespace ridge::text
