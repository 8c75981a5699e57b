// SPDX-License-Identifier: Apache-2.0
// A client of an HTTP/1.1 server: one connection, one request at a time. Takes bodies as they come.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ridge::http {

struct Url {
  std::string host, port;
  std::string path;  // without a slash at its end; may be empty

  // Takes "http://HOST[:PORT][/PATH]", with an IPv6 address in brackets. Throws a usage Error for
  // anything else; https is refused by name.
  static Url parse(const std::string& text);
};

struct ClientRequest {
  std::string method = "GET";
  std::string path;  // after that of the URL
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
};

class Client {
 public:
  // Connects with the first request. `silence_s` bounds connecting, and each wait for more bytes.
  Client(Url url, double silence_s);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Returns the status. `receive` is called with parts of the body. Keeps the connection if the
  // server does; a kept one that the server has closed meanwhile is replaced once. Throws a
  // run-time Error if there is no whole reply.
  int send(const ClientRequest& request, const std::function<void(std::string_view)>& receive);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ridge::http
