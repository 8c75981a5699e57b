// SPDX-License-Identifier: Apache-2.0
// The keys that clients must show.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ridge::http {

class ApiKeys {
 public:
  ApiKeys() : ApiKeys(std::vector<std::string>{}) {}  // no key is asked for
  explicit ApiKeys(const std::vector<std::string>& keys);
  // Reads a key a line, and after a space the tenant that it belongs to. Blanks at the end of a
  // line, empty lines and lines that begin with # are skipped. Throws a bad-file Error if there is
  // no key, or one is shorter than 8 characters or has two tenants, or a word is not printable
  // ASCII.
  static ApiKeys read(const std::filesystem::path& path);

  bool empty() const { return keys_.empty(); }
  // The tenant of the key that the header Authorization holds, as in "Bearer KEY": 0 if it has
  // none, one number for all keys of a tenant. No value if it is no key. How long it takes says
  // nothing about how much of a key is right.
  std::optional<uint32_t> tenant(std::string_view authorization) const;
  bool accept(std::string_view authorization) const { return tenant(authorization).has_value(); }

 private:
  struct Key {
    std::string text;
    uint32_t tenant = 0;
  };
  uint64_t hash(std::string_view text) const;
  const Key* find(std::string_view text) const;
  void add(std::string_view text, uint32_t tenant);

  std::string salt_;  // random, so that nobody outside knows which texts have the hash of a key
  std::vector<Key> keys_;
  std::unordered_multimap<uint64_t, size_t> places_;  // in keys_, by hash
};

}  // namespace ridge::http
