// SPDX-License-Identifier: Apache-2.0
// An HTTP/1.1 server: accepts connections on threads of its own and passes their requests to a
// site. Knows nothing of models.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "http/exchange.h"

namespace ridge::http {

struct ServerOptions {
  std::string host = "127.0.0.1";  // an address, or "localhost"
  int64_t port = 8080;             // 0: any free one
  int64_t threads = 2;
  int64_t connections = 512;  // open at once; as many more are answered, with their state or 503
  // The same of one client, which is an IPv4 address or the first half of an IPv6 address.
  int64_t client_connections = 256;
  int64_t header_bytes = int64_t{16} << 10;  // one request has no more
  int64_t body_bytes = int64_t{4} << 20;     // one request has no more
  double idle_s = 60;                        // without a request, and for its header
  double read_s = 30;                        // for a body
  double write_s = 30;                       // for a client to take what is ready
};
// Throws usage Errors for options out of range.
void validate(const ServerOptions& options);

// A client that closes its connection, or only its sending half, has left: its answer ends.
class Server {
 public:
  // Listens from now on. The site must outlive the server. Throws a usage Error for an address that
  // is none and a run-time Error for one that cannot be listened on.
  Server(Site& site, const ServerOptions& options);
  // Closes all connections.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int64_t port() const;
  // Accepts no more connections and closes each as soon as its request is answered.
  void drain();
  // Connections that are open.
  int64_t connections() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ridge::http
