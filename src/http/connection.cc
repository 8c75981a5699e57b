// SPDX-License-Identifier: Apache-2.0
// One client's connection: reads a request, writes the reply, and so on until either side closes.
// While an answer is made, the connection keeps reading, which is how it learns that the client has
// left. All of it runs on the connection's strand.
#include "http/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace ridge::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using boost::system::error_code;

constexpr size_t kPieceBytes = 4096;
constexpr double kLingerSeconds = 2;
constexpr double kReserveSeconds = 5;    // without a header on a connection in reserve
constexpr size_t kLargeBody = 64 << 10;  // its JSON takes a millisecond
constexpr size_t kFew = 64;

std::chrono::nanoseconds seconds(double count) {
  return std::chrono::nanoseconds(static_cast<int64_t>(count * 1e9));
}

std::string text_of(boost::string_view text) { return {text.data(), text.size()}; }

std::string text_of(const bhttp::response<bhttp::empty_body>& head) {
  std::ostringstream text;
  text << head.base();
  return text.str();
}

bhttp::response<bhttp::empty_body> head_of(const Reply& reply, bool keeps) {
  bhttp::response<bhttp::empty_body> head(static_cast<bhttp::status>(reply.status), 11);
  head.set(bhttp::field::server, "ridge");
  head.set(bhttp::field::content_type, reply.content_type);
  for (const auto& [name, value] : reply.headers) head.set(name, value);
  head.keep_alive(keeps);
  return head;
}

// A piece of an answer as it is sent to clients of HTTP/1.1.
std::string chunks_of(const std::string& bytes, bool is_last) {
  std::string chunks;
  if (!bytes.empty()) chunks = fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
  if (is_last) chunks += "0\r\n\r\n";
  return chunks;
}

// The status and the message for bytes that are no request; no value if the client has left.
std::optional<std::pair<int, std::string>> fault_of(error_code error,
                                                    const ServerOptions& options) {
  const bool is_of_http = error.category() == bhttp::make_error_code(bhttp::error{}).category();
  if (!is_of_http || error == bhttp::error::end_of_stream || error == bhttp::error::partial_message)
    return std::nullopt;
  if (error == bhttp::error::body_limit)
    return {{413, fmt::format("expected a body of at most {} bytes", options.body_bytes)}};
  if (error == bhttp::error::header_limit || error == bhttp::error::buffer_overflow)
    return {{431, fmt::format("expected a header of at most {} bytes", options.header_bytes)}};
  return {{400, "not valid HTTP: " + error.message()}};
}

Message message_of(const bhttp::request<bhttp::string_body>& head) {
  const std::string target = text_of(head.target());
  const size_t path_size = std::min(target.find('?'), target.size());
  return {text_of(head.method_string()),
          target.substr(0, path_size),
          text_of(head[bhttp::field::authorization]),
          "",
          target.substr(std::min(path_size + 1, target.size())),
          text_of(head[bhttp::field::host]),
          text_of(head[bhttp::field::origin])};
}

// A client's socket, on which each wait has a limit. One handler uses it at a time.
class ClientSocket {
 public:
  // The buffer takes a request's header, or what a client sends ahead while it is answered.
  ClientSocket(asio::ip::tcp::socket socket, int64_t header_bytes)
      : stream_(std::move(socket)), buffer_(std::max<size_t>(header_bytes, kPieceBytes)) {}

  auto executor() { return stream_.get_executor(); }
  bool is_open() { return stream_.socket().is_open(); }

  // Reads the header of the next request.
  template <typename Done>
  void read_header(const ServerOptions& options, double limit_s, Done done) {
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(options.header_bytes));
    parser_->body_limit(static_cast<uint64_t>(options.body_bytes));
    stream_.expires_after(seconds(limit_s));
    bhttp::async_read_header(stream_, buffer_, *parser_, std::move(done));
  }
  template <typename Done>
  void read_body(double limit_s, Done done) {
    stream_.expires_after(seconds(limit_s));
    bhttp::async_read(stream_, buffer_, *parser_, std::move(done));
  }
  // A client of HTTP/1.0 knows no chunks: its answer ends with the connection.
  bool takes_chunks() const { return parser_->get().version() >= 11; }
  // The request as far as it is read.
  auto& request() { return parser_->get(); }
  bool is_read() const { return parser_->is_done(); }
  template <typename Done>
  void write(std::string head, std::string body, double limit_s, Done done) {
    written_ = {std::move(head), std::move(body)};
    stream_.expires_after(seconds(limit_s));
    asio::async_write(stream_, std::array{asio::buffer(written_[0]), asio::buffer(written_[1])},
                      std::move(done));
  }

  bool has_room() const { return buffer_.size() < buffer_.max_size(); }
  // Reads into the buffer without a limit in time, until `cancel`. Its handler calls `keep`.
  template <typename Done>
  void read_ahead(Done done) {
    stream_.expires_never();
    const size_t room = std::min(buffer_.max_size() - buffer_.size(), kPieceBytes);
    stream_.async_read_some(buffer_.prepare(room), std::move(done));
  }
  void keep(size_t bytes) { buffer_.commit(bytes); }
  void wait_without_limit() { stream_.expires_never(); }
  void cancel() { stream_.cancel(); }

  // Lets the client read the reply although not all of its request was read: ends the sending half,
  // and forgets what still comes.
  template <typename Done>
  void linger(double limit_s, Done done) {
    error_code ignored;
    stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    stream_.expires_after(seconds(limit_s));
    forget(std::move(done));
  }
  void close() {
    error_code ignored;
    stream_.socket().close(ignored);
  }

 private:
  template <typename Done>
  void forget(Done done) {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(kPieceBytes), [this, done](error_code error, size_t) {
      try {
        error ? done(error, 0) : forget(done);
      } catch (const std::exception&) {  // out of memory
        done(error, 0);
      }
    });
  }

  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  std::optional<bhttp::request_parser<bhttp::string_body>> parser_;
  std::array<std::string, 2> written_;
};

}  // namespace

// Counts a connection, as long as it lives.
class Admission {
 public:
  Admission(Connections& all, const asio::ip::address& of_client, bool reserve)
      : client(of_client), is_reserve(reserve), all_(all) {
    const std::lock_guard lock(all_.mutex_);
    change(all_.of_client_[client], 1);
  }
  ~Admission() {
    const std::lock_guard lock(all_.mutex_);
    const auto mine = all_.of_client_.find(client);
    change(mine->second, -1);
    if (mine->second.served + mine->second.in_reserve == 0) all_.of_client_.erase(mine);
  }
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  // Whether this is an idle connection in reserve of that client that nobody has asked before. For
  // any thread.
  bool gives_way(const asio::ip::address& to) {
    return is_reserve && is_idle && client == to && !gives_way_.exchange(true);
  }

  // How long it may wait for a request.
  double idle_s() const {
    return is_reserve ? std::min(kReserveSeconds, all_.options.idle_s) : all_.options.idle_s;
  }

  const asio::ip::address client;
  const bool is_reserve;
  std::atomic<bool> is_idle = false;  // it waits for a request, or in reserve only lingers

 private:
  void change(Connections::OpenCount& mine, int64_t by) {
    for (Connections::OpenCount* each : {&all_.count_, &mine})
      (is_reserve ? each->in_reserve : each->served) += by;
  }

  Connections& all_;
  std::atomic<bool> gives_way_ = false;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(asio::ip::tcp::socket socket,
             Connections& all,
             const asio::ip::address& client,
             bool is_reserve,
             uint64_t number)
      : all_(all),
        number_(number),
        admission_(all, client, is_reserve),
        socket_(std::move(socket), all.options.header_bytes) {}

  Admission& admission() { return admission_; }
  // Ends all that waits on the socket, and lets its owner drop it. Belongs to the strand.
  void close() {
    reply_.answer.reset();
    socket_.close();
    all_.drop(number_);
  }
  void start() { run(&Connection::read_header, false); }
  // Whether nobody has woken it since it pumped last. For any thread.
  bool wakes() { return !is_awake_.exchange(true); }
  // Sends what is ready: at once where the thread may, or on another one.
  void pump_soon(bool at_once) { run(&Connection::pump, at_once); }
  // For any thread: closes the connection, or only if it waits for a request.
  void end(bool only_idle) {
    asio::post(socket_.executor(), [self = shared_from_this(), only_idle] {
      if (self->admission_.is_idle || !only_idle) self->close();
    });
  }

 private:
  // Without memory for a handler its connection ends, and the others go on.
  template <typename Act, typename... Arguments>
  void guarded(Act act, Arguments... arguments) {
    try {
      (this->*act)(std::move(arguments)...);
    } catch (const std::exception&) {
      close();
    }
  }
  void run(void (Connection::*act)(), bool at_once) {
    auto handler = [self = shared_from_this(), act] { self->guarded(act); };
    at_once ? asio::dispatch(socket_.executor(), std::move(handler))
            : asio::post(socket_.executor(), std::move(handler));
  }
  // Calls a member function when the operation that begins now has ended.
  using Handler = void (Connection::*)(error_code, size_t);
  auto then(Handler act) {
    return [self = shared_from_this(), act](error_code error, size_t bytes) {
      self->guarded(act, error, bytes);
    };
  }

  void read_header() {
    if (all_.drains) return close();
    admission_.is_idle = true;
    socket_.read_header(all_.options, admission_.idle_s(), then(&Connection::on_header));
  }

  void on_header(error_code error, size_t) {
    admission_.is_idle = false;
    if (error) return on_fault(error);
    const auto& head = socket_.request();
    keeps_ = head.keep_alive() && !all_.drains && !admission_.is_reserve;
    const Message message = message_of(head);
    std::optional<Reply> refused =
        admission_.is_reserve && !all_.site.asks_for_state(message)
            ? all_.site.fault(503,
                              "the server has too many connections, or too many of this client")
            : all_.site.refuse(message);
    if (refused.has_value()) {
      keeps_ = keeps_ && socket_.is_read();  // else the body is not read
      return write(std::move(*refused));
    }
    if (socket_.is_read()) return on_body({}, 0);
    if (!beast::iequals(head[bhttp::field::expect], "100-continue")) return on_continued({}, 0);
    socket_.write("HTTP/1.1 100 Continue\r\n\r\n", "", all_.options.write_s,
                  then(&Connection::on_continued));
  }

  void on_continued(error_code error, size_t) {
    if (error) return close();
    socket_.read_body(all_.options.read_s, then(&Connection::on_body));
  }

  // The request could not be read.
  void on_fault(error_code error) {
    keeps_ = false;
    const auto fault = fault_of(error, all_.options);
    fault ? write(all_.site.fault(fault->first, fault->second)) : close();
  }

  void on_body(error_code error, size_t) {
    if (error) return on_fault(error);
    Message message = message_of(socket_.request());
    message.body = std::move(socket_.request().body());
    if (message.body.size() < kLargeBody) return on_reply(ask(message));
    // One thread reads large bodies, so that the others answer short requests meanwhile.
    socket_.wait_without_limit();
    asio::post(all_.reader, [self = shared_from_this(), message = std::move(message)] {
      auto made = std::make_shared<Reply>(self->ask(message));
      asio::post(self->socket_.executor(),
                 [self, made] { self->guarded(&Connection::on_reply, std::move(*made)); });
    });
  }

  Reply ask(const Message& message) {
    return all_.site.reply(message, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->all_.wake(self);
    });
  }

  void on_reply(Reply reply) {
    if (reply.answer == nullptr) return write(std::move(reply));
    reply_ = std::move(reply);
    watch();
    if (!reply_.streams) return pump();
    keeps_ = keeps_ && socket_.takes_chunks() && !all_.drains;
    bhttp::response<bhttp::empty_body> head = head_of(reply_, keeps_);
    head.chunked(socket_.takes_chunks());
    send(text_of(head), "", &Connection::on_piece);
  }

  // Reads whatever comes while an answer is made: the next request, or the end.
  void watch() {
    if (is_watching_ || !socket_.has_room()) return;
    is_watching_ = true;
    socket_.read_ahead(then(&Connection::on_watched));
  }

  void on_watched(error_code error, size_t bytes) {
    is_watching_ = false;
    socket_.keep(bytes);
    if (!socket_.is_open()) return;
    if (reply_.answer == nullptr && !is_writing_)  // `finish` waits for the end of this read
      return error && error != asio::error::operation_aborted ? close() : go_on();
    if (!error) return reply_.answer != nullptr ? watch() : void();
    has_left_ = true;
    reply_.answer.reset();
    if (!is_writing_) close();
  }

  // Sends what is ready, if nothing is being sent.
  void pump() {
    is_awake_ = false;
    if (reply_.answer == nullptr || is_writing_) return;
    auto [bytes, is_last, status] = reply_.answer->take();
    if (is_last) reply_.answer.reset();
    if (!reply_.streams) return is_last ? write({status, std::move(bytes)}) : void();
    if (bytes.empty() && !is_last) return;
    std::string text = socket_.takes_chunks() ? chunks_of(bytes, is_last) : std::move(bytes);
    send(std::move(text), "", is_last ? &Connection::on_sent : &Connection::on_piece);
  }

  void on_piece(error_code error, size_t) {
    is_writing_ = false;
    if (error || reply_.answer == nullptr) return close();
    pump();
  }

  void write(Reply reply) {
    keeps_ = keeps_ && !all_.drains;
    bhttp::response<bhttp::empty_body> head = head_of(reply, keeps_);
    const bool has_body = socket_.request().method() != bhttp::verb::head;
    if (has_body || reply.status < 400) head.content_length(reply.body.size());
    send(text_of(head), has_body ? std::move(reply.body) : "", &Connection::on_sent);
  }

  void send(std::string head, std::string body, Handler act) {
    is_writing_ = true;
    socket_.write(std::move(head), std::move(body), all_.options.write_s, then(act));
  }

  void on_sent(error_code error, size_t) {
    is_writing_ = false;
    if (error || has_left_) return close();
    // The next step uses the buffer, into which nothing may be read then.
    is_watching_ ? socket_.cancel() : go_on();
  }
  void go_on() {
    if (keeps_) return read_header();
    admission_.is_idle = admission_.is_reserve;  // with its reply, it gives way too
    socket_.linger(kLingerSeconds, then(&Connection::on_lingered));
  }
  void on_lingered(error_code, size_t) { close(); }

  Connections& all_;
  const uint64_t number_;  // by which its owner knows it
  Admission admission_;
  ClientSocket socket_;
  Reply reply_;
  bool keeps_ = true;  // the connection stays open after this reply
  bool is_watching_ = false, is_writing_ = false;
  // The client has ended its half. Asio reports that once: another read would wait for the timeout.
  bool has_left_ = false;
  std::atomic<bool> is_awake_ = false;  // it is in Connections::awake_, or will pump
};

namespace {

// One client may have many IPv6 addresses of one network.
asio::ip::address client_of(const asio::ip::address& address) {
  if (address.is_v4()) return address;
  asio::ip::address_v6 v6 = address.to_v6();
  if (v6.is_v4_mapped()) return asio::ip::make_address_v4(asio::ip::v4_mapped, v6);
  asio::ip::address_v6::bytes_type bytes = v6.to_bytes();
  std::fill(bytes.begin() + bytes.size() / 2, bytes.end(), 0);
  return asio::ip::address_v6(bytes);
}

}  // namespace

std::optional<bool> Connections::admit(const asio::ip::address& client) {
  std::shared_ptr<Connection> oldest;
  {
    const std::lock_guard lock(mutex_);
    const auto found = of_client_.find(client);
    const OpenCount mine = found == of_client_.end() ? OpenCount{} : found->second;
    const auto has_room = [&](int64_t OpenCount::*of) {
      return count_.*of < options.connections && mine.*of < options.client_connections;
    };
    if (has_room(&OpenCount::served)) return false;
    if (has_room(&OpenCount::in_reserve)) return true;
    const auto gives_way = std::ranges::find_if(
        open_, [&](const auto& each) { return each.second->admission().gives_way(client); });
    if (gives_way == open_.end()) return std::nullopt;
    oldest = gives_way->second;
  }
  oldest->end(true);
  return true;
}

void Connections::open(asio::ip::tcp::socket socket) {
  error_code ignored, unknown;
  const asio::ip::address client = client_of(socket.remote_endpoint(unknown).address());
  const std::optional<bool> is_reserve = unknown ? std::nullopt : admit(client);
  if (!is_reserve) return;
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);  // tokens leave as they come
  // Else the system would take megabytes from the server for a client that takes nothing.
  socket.set_option(asio::socket_base::send_buffer_size(64 << 10), ignored);
  std::unique_lock lock(mutex_);
  const uint64_t number = open_.empty() ? 1 : open_.rbegin()->first + 1;
  lock.unlock();
  const auto connection =
      std::make_shared<Connection>(std::move(socket), *this, client, *is_reserve, number);
  lock.lock();
  open_.emplace(number, connection);
  lock.unlock();
  try {
    connection->start();
  } catch (...) {
    connection->close();
    throw;
  }
}

void Connections::end(bool only_idle) {
  std::unique_lock lock(mutex_);
  const std::map<uint64_t, std::shared_ptr<Connection>> open = open_;
  lock.unlock();
  for (const auto& [number, connection] : open) connection->end(only_idle);
}

int64_t Connections::count() const {
  const std::lock_guard lock(mutex_);
  return count_.served + count_.in_reserve;
}

void Connections::drop(uint64_t number) {
  std::unique_lock lock(mutex_);
  const auto dropped = open_.extract(number);
  lock.unlock();  // the end of the connection takes it
}

// An engine's step wakes many connections at once: one handler goes through all of them, so that
// the engine's thread wakes one other thread and not one for each. Its caller holds the connection
// to the end, for the context that this posts to lives as long as one counts.
void Connections::wake(const std::shared_ptr<Connection>& connection) {
  if (!connection->wakes()) return;
  std::unique_lock lock(awake_mutex_);
  const bool is_first = awake_.empty();
  awake_.push_back(connection);
  lock.unlock();
  if (is_first) asio::post(executor_, [this] { pump_awake(); });
}

void Connections::pump_awake() {
  std::unique_lock lock(awake_mutex_);
  const std::vector<std::shared_ptr<Connection>> awake = std::exchange(awake_, {});
  lock.unlock();
  // Few are sent to by this thread alone, as another one would take a core from the engine.
  for (const auto& each : awake) each->pump_soon(awake.size() <= kFew);
}

}  // namespace ridge::http
