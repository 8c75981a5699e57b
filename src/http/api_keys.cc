// SPDX-License-Identifier: Apache-2.0
// Reads key files and compares keys in constant time.
#include "http/api_keys.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>

#include "base/error.h"
#include "files/hash.h"
#include "files/mapped_file.h"

namespace ridge::http {
namespace {

// Looks at every character of `given`, whatever the key.
bool equal(std::string_view key, std::string_view given) {
  uint32_t difference = static_cast<uint32_t>(key.size() ^ given.size());
  for (size_t i = 0; i < given.size(); ++i)
    difference |= static_cast<uint32_t>(static_cast<unsigned char>(given[i]) ^
                                        static_cast<unsigned char>(key[i % key.size()]));
  return difference == 0;
}

std::string random_salt() {
  std::random_device device;
  std::string salt;
  for (int i = 0; i < 16; ++i) salt += static_cast<char>(device());
  return salt;
}

}  // namespace

ApiKeys::ApiKeys(const std::vector<std::string>& keys) : salt_(random_salt()) {
  for (const std::string& each : keys) add(each, 0);
}

uint64_t ApiKeys::hash(std::string_view text) const {
  const std::string salted = salt_ + std::string(text);
  return files::hash64(std::as_bytes(std::span(salted)));
}

const ApiKeys::Key* ApiKeys::find(std::string_view text) const {
  const auto [begin, end] = places_.equal_range(hash(text));
  for (auto at = begin; at != end; ++at)
    if (equal(keys_[at->second].text, text)) return &keys_[at->second];
  return nullptr;
}

void ApiKeys::add(std::string_view text, uint32_t tenant) {
  places_.emplace(hash(text), keys_.size());
  keys_.push_back({std::string(text), tenant});
}

ApiKeys ApiKeys::read(const std::filesystem::path& path) {
  constexpr size_t kLeast = 8;
  const files::MappedFile file(path);
  ApiKeys all;
  std::unordered_map<std::string, uint32_t> tenants;  // numbered from 1
  std::string_view left = file.text();
  for (int64_t number = 1; !left.empty(); ++number) {
    const size_t end = std::min(left.find('\n'), left.size());
    std::string_view line = left.substr(0, end);
    left.remove_prefix(std::min(end + 1, left.size()));
    while (line.ends_with('\r') || line.ends_with(' ')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    const size_t space = std::min(line.find(' '), line.size());
    const std::string_view key = line.substr(0, space),
                           tenant = line.substr(std::min(space + 1, line.size()));
    const auto is_plain = [](char c) { return c > ' ' && c <= '~'; };
    if (key.size() < kLeast || !std::ranges::all_of(key, is_plain) ||
        !std::ranges::all_of(tenant, is_plain))  // without the key itself
      throw file_error(
          "[{}] expected keys of at least {} characters of printable ASCII, each alone on its line or "
          "before a space and the name of a tenant, found another one in line {}",
          file.source(), kLeast, number);
    const uint32_t owner =
        tenant.empty()
            ? 0
            : tenants.try_emplace(std::string(tenant), static_cast<uint32_t>(tenants.size() + 1))
                  .first->second;
    const Key* known = all.find(key);
    if (known != nullptr && known->tenant != owner)
      throw file_error("[{}] expected each key to have one tenant, line {} gives a key another one",
                       file.source(), number);
    if (known == nullptr) all.add(key, owner);
  }
  if (all.empty()) throw file_error("[{}] expected a key on a line, found none", file.source());
  return all;
}

std::optional<uint32_t> ApiKeys::tenant(std::string_view authorization) const {
  constexpr std::string_view kScheme = "Bearer ";
  if (!authorization.starts_with(kScheme)) return std::nullopt;
  authorization.remove_prefix(kScheme.size());
  const Key* key = find(authorization);
  return key == nullptr ? std::nullopt : std::optional(key->tenant);
}

}  // namespace ridge::http
