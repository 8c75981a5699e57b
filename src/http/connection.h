// SPDX-License-Identifier: Apache-2.0
// The owner of a server's connections. Only for the files that include Boost.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "http/exchange.h"
#include "http/server.h"

namespace ridge::http {

class Connection;

class Connections {
 public:
  // `executor` is that of the threads, without a strand; `reader` that of one thread which reads
  // large bodies. The executors' handlers must be gone before this object.
  Connections(Site& of,
              const ServerOptions& with,
              boost::asio::any_io_executor on,
              boost::asio::any_io_executor large)
      : site(of), options(with), reader(std::move(large)), executor_(std::move(on)) {}

  // Takes over a socket whose executor is a strand. Beyond the limits a connection is in reserve:
  // it answers a request for the server's state, or that there are too many connections, and
  // closes. Beyond twice the limits of its client it takes the place of that client's oldest idle
  // one in reserve. If there is none, or beyond twice the limits of all, it is closed without a
  // reply.
  void open(boost::asio::ip::tcp::socket socket);
  // Closes connections soon: all, or those that wait for a request.
  void end(bool only_idle);
  // A closed connection counts until its last handler has run.
  int64_t count() const;

  // For a connection: lets go of it.
  void drop(uint64_t number);
  // For any thread: sends soon what a connection's answer has.
  void wake(const std::shared_ptr<Connection>& connection);

  Site& site;
  const ServerOptions options;
  const boost::asio::any_io_executor reader;
  std::atomic<bool> drains = false;

 private:
  friend class Admission;
  // How many connections are served, and how many in reserve.
  struct OpenCount {
    int64_t served = 0, in_reserve = 0;
  };

  // Whether a client's next connection is in reserve; no value if it is refused.
  std::optional<bool> admit(const boost::asio::ip::address& client);
  void pump_awake();

  const boost::asio::any_io_executor executor_;
  mutable std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Connection>> open_;  // in the order in which they came
  OpenCount count_;
  std::map<boost::asio::ip::address, OpenCount> of_client_;
  std::mutex awake_mutex_;
  std::vector<std::shared_ptr<Connection>> awake_;  // their answers have more
};

}  // namespace ridge::http
