// SPDX-License-Identifier: Apache-2.0
// Compares host names without their ports.
#include "http/allowed_hosts.h"

#include <algorithm>

#include <boost/asio/ip/address.hpp>

#include "base/error.h"
#include "base/printable.h"
#include "base/split.h"

namespace ridge::http {
namespace {

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

// "[::1]:80" to "::1", "Localhost.:80" to "localhost".
std::string without_port(std::string_view host) {
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    return end == std::string_view::npos ? "" : lower_case(host.substr(1, end - 1));
  }
  std::string name = lower_case(host.substr(0, host.find(':')));
  if (name.ends_with('.')) name.pop_back();
  return name;
}

bool is_address(const std::string& name) {
  boost::system::error_code error;
  boost::asio::ip::make_address(name, error);
  return !error;
}

}  // namespace

AllowedHosts::AllowedHosts(std::string_view names) : is_any_(false) {
  constexpr std::string_view kCharacters = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
  for (const std::string& each : split(names)) {
    std::string name = lower_case(each);
    const std::string_view plain = std::string_view(name).substr(name.starts_with("*.") ? 2 : 0);
    is_any_ = is_any_ || name == "*";
    if (name != "*" &&
        (plain.empty() || plain.find_first_not_of(kCharacters) != std::string_view::npos))
      throw usage_error("[allowed-hosts] expected NAME, *.NAME or *, got {}", printable(name));
    names_.push_back(std::move(name));
  }
}

bool AllowedHosts::accepts_host(std::string_view host) const {
  if (is_any_ || host.empty()) return true;
  const std::string name = without_port(host);
  return is_address(name) || std::ranges::any_of(names_, [&](const std::string& allowed) {
           return allowed.starts_with("*.") ? name.ends_with(allowed.substr(1)) : name == allowed;
         });
}

bool AllowedHosts::accepts_origin(std::string_view origin) const {
  if (is_any_ || origin.empty()) return true;
  const size_t scheme = origin.find("://");
  return scheme != std::string_view::npos && scheme + 3 < origin.size() &&
         accepts_host(origin.substr(scheme + 3));
}

}  // namespace ridge::http
