// SPDX-License-Identifier: Apache-2.0
// The connections of a server and the state that they share. Only for the files that include Boost.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "http/exchange.h"
#include "http/server.h"

namespace ridge::http {

class Connection;

// How many connections are open.
struct OpenCount {
  int64_t served = 0, in_reserve = 0;
};

struct Connections {
  Connections(Site& of, const ServerOptions& with) : site(of), options(with) {}

  Site& site;
  const ServerOptions options;
  boost::asio::any_io_executor executor;  // the threads, without a strand
  boost::asio::any_io_executor reader;    // one thread that reads large bodies
  std::atomic<bool> drains = false;
  std::mutex mutex;
  std::map<uint64_t, Connection*> open;  // in the order in which they came
  OpenCount count;
  std::map<boost::asio::ip::address, OpenCount> of_client;
  std::mutex awake_mutex;
  std::vector<std::shared_ptr<Connection>> awake;  // their answers have more
};

// Takes over a socket whose executor is a strand. Beyond the limits a connection is in reserve: it
// answers a request for the server's state, or that there are too many connections, and closes.
// Beyond twice the limits of its client it takes the place of that client's oldest idle one in
// reserve. If there is none, or beyond twice the limits of all, it is closed without a reply.
void open_connection(boost::asio::ip::tcp::socket socket, std::shared_ptr<Connections> all);
// Closes connections soon: all, or those that wait for a request.
void end_connections(Connections& all, bool only_idle);

}  // namespace ridge::http
