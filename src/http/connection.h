// SPDX-License-Identifier: Apache-2.0
// What the connections of a server share. Only for the files that include Boost.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "http/exchange.h"
#include "http/server.h"

namespace ridge::http {

class Connection;

struct Connections {
  Connections(Site& of, const ServerOptions& with) : site(of), options(with) {}

  Site& site;
  const ServerOptions options;
  boost::asio::any_io_executor executor;  // the threads, without a strand
  boost::asio::any_io_executor reader;    // one thread that reads large bodies
  std::atomic<bool> drains = false;
  std::mutex mutex;
  std::set<Connection*> open;
  std::mutex awake_mutex;
  std::vector<std::shared_ptr<Connection>> awake;  // their answers have more
};

// Takes over a socket whose executor is a strand. One in reserve answers a request for the server's
// state, or that the server has too many connections, and closes.
void open_connection(boost::asio::ip::tcp::socket socket,
                     std::shared_ptr<Connections> all,
                     bool is_reserve);
// Closes connections soon: all, or those that wait for a request.
void end_connections(Connections& all, bool only_idle);

}  // namespace ridge::http
