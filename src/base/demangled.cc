// SPDX-License-Identifier: Apache-2.0
// Calls the library of the compiler. Names may come from hostile files.
#include "base/demangled.h"

#include <cxxabi.h>

#include <charconv>
#include <cstdlib>
#include <memory>

namespace ridge {
namespace {

// Each reference to an earlier part of a name may double its length.
constexpr int kMostReferences = 32;
// The library's compiler knows no bf16, so that its mangled name is that of char8_t meanwhile.
constexpr std::string_view kBf16 = "DF16b", kStandIn = "Du", kStandInText = "char8_t";

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

// Those to the first part ("S_") and to the standard library add little.
int references(std::string_view name) {
  int count = 0;
  for (size_t at = name.find('S'); at != std::string_view::npos; at = name.find('S', at + 1)) {
    const size_t end = name.find_first_not_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", at + 1);
    if (end != std::string_view::npos && end > at + 1 && name[end] == '_') ++count;
  }
  return count;
}

// "_ZN3sgl3actIf..." -> "sgl::act<f...>": the parts that have their lengths before them.
std::string with_own_name(std::string_view name) {
  std::string_view rest = name.substr(2);
  if (rest.starts_with('N')) rest.remove_prefix(1);
  std::string text;
  while (!rest.empty()) {
    size_t length = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), length);
    const auto digits = static_cast<size_t>(end - rest.data());
    if (error != std::errc() || length == 0 || length > rest.size() - digits) break;
    const std::string_view part = rest.substr(digits, length);
    if (!part.starts_with("_GLOBAL__N")) text += (text.empty() ? "" : "::") + std::string(part);
    rest.remove_prefix(digits + length);
  }
  if (text.empty()) return std::string(name);
  return rest.empty() ? text : text + "<" + std::string(rest) + ">";
}

}  // namespace

std::string demangled(std::string_view name) {
  if (!name.starts_with("_Z")) return std::string(name);
  if (references(name) > kMostReferences) return with_own_name(name);
  const std::string readable = replaced(std::string(name), kBf16, kStandIn);
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(readable.c_str(), nullptr, nullptr, &status), &std::free);
  if (status != 0 || text == nullptr) return with_own_name(name);
  return readable == name ? text.get() : replaced(text.get(), kStandInText, "bf16");
}

}  // namespace ridge
