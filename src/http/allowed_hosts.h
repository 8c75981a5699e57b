// SPDX-License-Identifier: Apache-2.0
// Names under which a server may be addressed. A page of a stranger can make a browser send
// requests to a server that only this machine reaches (DNS rebinding); they have the page's host.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ridge::http {

class AllowedHosts {
 public:
  // Lets requests with any name pass.
  AllowedHosts() = default;
  // Lets requests pass that name one of the hosts, "a.com,b.com". Addresses always pass, as a
  // stranger's name is none. "*" stands for any name, and "*.example.com" for the names below
  // example.com. Throws a usage Error for a name with other characters than a host name has.
  explicit AllowedHosts(std::string_view names);

  // The value of the header Host, "localhost:8080". A request without it passes: browsers send it.
  bool accepts_host(std::string_view host) const;
  // The value of the header Origin, "http://localhost:8080". A request without it passes; "null",
  // the origin of a file or a sandbox, does not unless any name does.
  bool accepts_origin(std::string_view origin) const;

 private:
  bool is_any_ = true;
  std::vector<std::string> names_;  // in lower case
};

}  // namespace ridge::http
