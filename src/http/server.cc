// SPDX-License-Identifier: Apache-2.0
// Listens, and runs the threads on which connections live.
#include "http/server.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <new>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "http/connection.h"

namespace ridge::http {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

void expect_between(const char* option, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most)
    throw usage_error("[{}] expected {} to {}, got {}", option, least, most, value);
}

tcp::endpoint endpoint_of(const ServerOptions& options) {
  const std::string host = options.host == "localhost" ? "127.0.0.1" : options.host;
  error_code error;
  const asio::ip::address address = asio::ip::make_address(host, error);
  if (error)
    throw usage_error("[host] expected an IP address or \"localhost\", got {}",
                      printable(options.host));
  return {address, static_cast<uint16_t>(options.port)};
}

}  // namespace

void validate(const ServerOptions& o) {
  expect_between("port", o.port, 0, UINT16_MAX);
  expect_between("http-threads", o.threads, 1, 64);
  expect_between("max-connections", o.connections, 1, 1 << 16);
  expect_between("max-client-connections", o.client_connections, 1, 1 << 16);
  expect_between("max-header-bytes", o.header_bytes, 1 << 10, 1 << 20);
  expect_between("max-body-bytes", o.body_bytes, 1 << 10, int64_t{1} << 30);
  endpoint_of(o);
}

class Server::Impl {
 public:
  Impl(Site& site, const ServerOptions& options)
      : all_(site, options, context_.get_executor(), reader_.get_executor()),
        acceptor_(asio::make_strand(context_)),
        pause_(acceptor_.get_executor()) {
    listen(endpoint_of(options));
    accept();
    for (int64_t i = 0; i < options.threads; ++i) threads_.emplace_back([this] { run(); });
  }

  // An answer's `wake` reaches a connection as long as one is open, so all are closed first.
  ~Impl() {
    drain();
    for (; is_accepting_ || connections() > 0;
         std::this_thread::sleep_for(std::chrono::milliseconds(1)))
      all_.end(false);
    reader_.join();
    context_.stop();
    for (std::thread& thread : threads_) thread.join();
  }

  int64_t port() const { return port_; }

  void drain() {
    all_.drains = true;
    asio::post(acceptor_.get_executor(), [this] {
      error_code ignored;
      acceptor_.close(ignored);
      pause_.cancel();
    });
    all_.end(true);
  }

  int64_t connections() const { return all_.count(); }

 private:
  void listen(const tcp::endpoint& endpoint) {
    try {
      acceptor_.open(endpoint.protocol());
      acceptor_.set_option(tcp::acceptor::reuse_address(true));
      acceptor_.bind(endpoint);
      acceptor_.listen();
      port_ = acceptor_.local_endpoint().port();
    } catch (const boost::system::system_error& error) {
      throw usage_error("[port] cannot listen on {} port {}: {}", endpoint.address().to_string(),
                        endpoint.port(), error.code().message());
    }
  }

  void accept() {
    acceptor_.async_accept(asio::make_strand(context_),
                           [this](error_code error, tcp::socket socket) {
                             if (!error) open(std::move(socket));
                             if (all_.drains) {
                               is_accepting_ = false;
                             } else if (!error) {
                               accept();
                             } else {  // for example no file descriptor is left
                               pause_.expires_after(std::chrono::milliseconds(100));
                               pause_.async_wait([this](error_code) { accept(); });
                             }
                           });
  }

  // Where memory is lacking for the connection, the next one is accepted all the same.
  void open(tcp::socket socket) {
    try {
      all_.open(std::move(socket));
    } catch (const std::bad_alloc&) {
    }
  }

  void run() {
    for (bool is_over = false; !is_over;) {
      try {
        context_.run();
        is_over = true;
      } catch (const std::exception&) {
        // A handler ran out of memory before it reached its connection: the others go on.
      }
    }
  }

  asio::io_context context_;
  asio::thread_pool reader_{1};
  Connections all_;
  // The threads run until the end, also where no connection waits for anything: what is posted to a
  // connection that has just left must run, for it holds the connection.
  const asio::executor_work_guard<asio::io_context::executor_type> runs_{context_.get_executor()};
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  std::atomic<bool> is_accepting_ = true;
  int64_t port_ = 0;
  std::vector<std::thread> threads_;
};

Server::Server(Site& site, const ServerOptions& options) {
  validate(options);
  impl_ = std::make_unique<Impl>(site, options);
}

Server::~Server() = default;
int64_t Server::port() const { return impl_->port(); }
void Server::drain() { impl_->drain(); }
int64_t Server::connections() const { return impl_->connections(); }

}  // namespace ridge::http
