// SPDX-License-Identifier: Apache-2.0
// One client's connection: reads a request, writes the reply, and so on until either side closes.
// While an answer is made, the connection keeps reading, which is how it learns that the client has
// left. All of it runs on the connection's strand.
#include "http/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ridge::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using boost::system::error_code;

std::chrono::nanoseconds seconds(double count) {
  return std::chrono::nanoseconds(static_cast<int64_t>(count * 1e9));
}

std::string text_of(boost::string_view text) { return {text.data(), text.size()}; }

}  // namespace

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(asio::ip::tcp::socket socket,
             std::shared_ptr<Connections> all,
             const asio::ip::address& client,
             bool is_reserve)
      : all_(std::move(all)),
        client_(client),
        is_reserve_(is_reserve),
        stream_(std::move(socket)),
        // A request's header, or what a client sends ahead while it is answered.
        buffer_(static_cast<size_t>(std::max(all_->options.header_bytes, kLeastBuffer))) {}
  ~Connection() {
    const std::lock_guard lock(all_->mutex);
    if (all_->open.erase(number_) == 0) return;
    --place_in(all_->count);
    const auto mine = all_->of_client.find(client_);
    --place_in(mine->second);
    if (mine->second.served + mine->second.in_reserve == 0) all_->of_client.erase(mine);
  }

  // From here on it is counted and end_connections finds it: not before shared pointers to it can
  // be made.
  void enter() {
    const std::lock_guard lock(all_->mutex);
    OpenCount& mine = all_->of_client[client_];
    const uint64_t number = all_->open.empty() ? 1 : all_->open.rbegin()->first + 1;
    all_->open.emplace(number, this);
    number_ = number;
    ++place_in(all_->count);
    ++place_in(mine);
  }
  // Whether this is an idle connection in reserve of that client that nobody has asked before. For
  // any thread.
  bool gives_way(const asio::ip::address& client) {
    return is_reserve_ && is_idle_ && client_ == client && !gives_way_.exchange(true);
  }
  void start() {
    asio::post(stream_.get_executor(), [self = shared_from_this()] { self->read_header(); });
  }
  // For any thread: closes the connection, or only if it waits for a request.
  void end(bool only_idle) {
    asio::post(stream_.get_executor(), [self = shared_from_this(), only_idle] {
      if (self->is_idle_ || !only_idle) self->close();
    });
  }

 private:
  int64_t& place_in(OpenCount& count) const {
    return is_reserve_ ? count.in_reserve : count.served;
  }

  static constexpr int64_t kLeastBuffer = 4096;
  static constexpr double kLingerSeconds = 2;
  static constexpr double kReserveSeconds = 5;    // without a header on a connection in reserve
  static constexpr size_t kLargeBody = 64 << 10;  // its JSON takes a millisecond
  static constexpr size_t kFew = 64;

  template <typename Handler>
  auto bound(Handler handler) {
    return [self = shared_from_this(), handler](error_code error, size_t bytes) {
      (self.get()->*handler)(error, bytes);
    };
  }

  void read_header() {
    if (all_->drains) return close();
    is_idle_ = true;
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(all_->options.header_bytes));
    parser_->body_limit(static_cast<uint64_t>(all_->options.body_bytes));
    stream_.expires_after(seconds(is_reserve_ ? std::min(kReserveSeconds, all_->options.idle_s)
                                              : all_->options.idle_s));
    bhttp::async_read_header(stream_, buffer_, *parser_, bound(&Connection::on_header));
  }

  void on_header(error_code error, size_t) {
    is_idle_ = false;
    if (error) return on_fault(error);
    const auto& head = parser_->get();
    keeps_ = head.keep_alive() && !all_->drains && !is_reserve_;
    const std::string target = text_of(head.target());
    const size_t path_size = std::min(target.find('?'), target.size());
    message_ = {text_of(head.method_string()),
                target.substr(0, path_size),
                text_of(head[bhttp::field::authorization]),
                "",
                target.substr(std::min(path_size + 1, target.size())),
                text_of(head[bhttp::field::host]),
                text_of(head[bhttp::field::origin])};
    std::optional<Reply> refused =
        is_reserve_ && !all_->site.asks_for_state(message_)
            ? all_->site.fault(503,
                               "the server has too many connections, or too many of this client")
            : all_->site.refuse(message_);
    if (refused.has_value()) {
      keeps_ = keeps_ && parser_->is_done();  // else the body is not read
      return write(std::move(*refused));
    }
    if (parser_->is_done()) return on_body({}, 0);
    if (!beast::iequals(head[bhttp::field::expect], "100-continue")) return read_body();
    stream_.expires_after(seconds(all_->options.write_s));
    go_on_.emplace(bhttp::status::continue_, head.version());
    bhttp::async_write(stream_, *go_on_, [self = shared_from_this()](error_code failed, size_t) {
      if (!failed) self->read_body();
    });
  }

  void read_body() {
    stream_.expires_after(seconds(all_->options.read_s));
    bhttp::async_read(stream_, buffer_, *parser_, bound(&Connection::on_body));
  }

  // The request could not be read.
  void on_fault(error_code error) {
    keeps_ = false;
    message_.method = text_of(parser_->get().method_string());
    const bool is_of_http = error.category() == bhttp::make_error_code(bhttp::error{}).category();
    if (!is_of_http || error == bhttp::error::end_of_stream ||
        error == bhttp::error::partial_message)
      return close();
    if (error == bhttp::error::body_limit)
      return write(all_->site.fault(
          413, fmt::format("expected a body of at most {} bytes", all_->options.body_bytes)));
    if (error == bhttp::error::header_limit || error == bhttp::error::buffer_overflow)
      return write(all_->site.fault(
          431, fmt::format("expected a header of at most {} bytes", all_->options.header_bytes)));
    write(all_->site.fault(400, "not valid HTTP: " + error.message()));
  }

  void on_body(error_code error, size_t) {
    if (error) return on_fault(error);
    message_.body = std::move(parser_->get().body());
    if (message_.body.size() < kLargeBody) return on_reply(reply());
    // One thread reads large bodies, so that the others answer short requests meanwhile.
    stream_.expires_never();
    asio::post(all_->reader, [self = shared_from_this()] {
      auto made = std::make_shared<Reply>(self->reply());
      asio::post(self->stream_.get_executor(), [self, made] { self->on_reply(std::move(*made)); });
    });
  }

  Reply reply() {
    Reply made = all_->site.reply(message_, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) wake(self);
    });
    message_.body = {};
    return made;
  }

  void on_reply(Reply reply) {
    if (reply.answer == nullptr) return write(std::move(reply));
    answer_ = std::move(reply.answer);
    while_answering_ = shared_from_this();
    streams_ = reply.streams;
    watch();
    if (streams_) return write_head(std::move(reply));
    pump();
  }

  // Sends what is ready soon. An engine's step wakes many connections at once: one handler goes
  // through all of them, so that the engine's thread wakes one other thread and not one for each.
  // Holds the connection to its end, for the context that it posts to lives as long as a connection
  // is open.
  static void wake(const std::shared_ptr<Connection>& self) {
    if (self->is_awake_.exchange(true)) return;
    const std::shared_ptr<Connections> all = self->all_;
    bool is_first = false;
    {
      const std::lock_guard lock(all->awake_mutex);
      is_first = all->awake.empty();
      all->awake.push_back(self);
    }
    if (is_first) asio::post(all->executor, [all] { pump_all(*all); });
  }
  static void pump_all(Connections& all) {
    std::vector<std::shared_ptr<Connection>> awake;
    {
      const std::lock_guard lock(all.awake_mutex);
      awake.swap(all.awake);
    }
    // Few are sent to by this thread alone, as another one would take a core from the engine.
    const bool is_few = awake.size() <= kFew;
    for (std::shared_ptr<Connection>& each : awake) {
      const auto strand = each->stream_.get_executor();
      auto pump = [self = std::move(each)] {
        self->is_awake_ = false;
        try {
          self->pump();
        } catch (const std::exception&) {  // out of memory: this connection ends, the others go on
          self->close();
        }
      };
      is_few ? asio::dispatch(strand, std::move(pump)) : asio::post(strand, std::move(pump));
    }
  }

  // Reads whatever comes while an answer is made: the next request, or the end.
  void watch() {
    if (is_watching_ || buffer_.size() == buffer_.max_size()) return;
    is_watching_ = true;
    stream_.expires_never();
    const size_t room = std::min<size_t>(buffer_.max_size() - buffer_.size(), kLeastBuffer);
    stream_.async_read_some(buffer_.prepare(room), bound(&Connection::on_watched));
  }

  void on_watched(error_code error, size_t bytes) {
    is_watching_ = false;
    buffer_.commit(bytes);
    if (next_ != nullptr) {
      const auto next = std::exchange(next_, nullptr);
      if (error && error != asio::error::operation_aborted) return close();
      return (this->*next)();
    }
    if (!error) return answer_ != nullptr ? watch() : void();
    has_left_ = true;
    drop_answer();
    if (!is_writing_) close();
  }

  // Sends what is ready, if nothing is being sent.
  void pump() {
    if (answer_ == nullptr || is_writing_) return;
    Answer::Piece piece = answer_->take();
    if (!streams_) {
      if (!piece.is_last) return;
      drop_answer();
      return write({piece.status, std::move(piece.bytes)});
    }
    if (piece.is_last) drop_answer();
    if (piece.bytes.empty() && !piece.is_last) return;
    chunk_ = std::move(piece.bytes);
    is_writing_ = true;
    stream_.expires_after(seconds(all_->options.write_s));
    if (piece.is_last) return write_last_chunk();
    if (is_chunked()) {
      asio::async_write(stream_, bhttp::make_chunk(asio::buffer(chunk_)),
                        bound(&Connection::on_chunk));
    } else {
      asio::async_write(stream_, asio::buffer(chunk_), bound(&Connection::on_chunk));
    }
  }

  // A client of HTTP/1.0 knows no chunks: its answer ends with the connection.
  bool is_chunked() const { return parser_->get().version() >= 11; }

  void on_chunk(error_code error, size_t) {
    is_writing_ = false;
    if (error) drop_answer();
    if (answer_ == nullptr) return close();
    pump();
  }

  void write_last_chunk() {
    const auto end = [self = shared_from_this()](error_code error, size_t) {
      self->is_writing_ = false;
      self->finish(error);
    };
    if (!is_chunked()) return asio::async_write(stream_, asio::buffer(chunk_), end);
    if (chunk_.empty()) return asio::async_write(stream_, bhttp::make_chunk_last(), end);
    asio::async_write(stream_, bhttp::make_chunk(asio::buffer(chunk_)),
                      [self = shared_from_this(), end](error_code error, size_t bytes) {
                        if (error) return end(error, bytes);
                        asio::async_write(self->stream_, bhttp::make_chunk_last(), end);
                      });
  }

  template <typename Response>
  void fill_head(Response& response, const Reply& reply) {
    response.result(static_cast<unsigned>(reply.status));
    response.version(11);
    response.set(bhttp::field::server, "ridge");
    response.set(bhttp::field::content_type, reply.content_type);
    for (const auto& [name, value] : reply.headers) response.set(name, value);
    keeps_ = keeps_ && !all_->drains;
    response.keep_alive(keeps_);
  }

  void write_head(Reply reply) {
    head_.emplace();
    keeps_ = keeps_ && is_chunked();
    fill_head(*head_, reply);
    head_->chunked(is_chunked());
    head_serializer_.emplace(*head_);
    is_writing_ = true;
    stream_.expires_after(seconds(all_->options.write_s));
    bhttp::async_write_header(stream_, *head_serializer_, bound(&Connection::on_chunk));
  }

  void write(Reply reply) {
    response_.emplace();
    fill_head(*response_, reply);
    const bool has_body = message_.method != "HEAD";
    if (has_body || reply.status < 400) response_->content_length(reply.body.size());
    if (has_body) response_->body() = std::move(reply.body);
    is_writing_ = true;
    stream_.expires_after(seconds(all_->options.write_s));
    bhttp::async_write(stream_, *response_, [self = shared_from_this()](error_code error, size_t) {
      self->is_writing_ = false;
      self->finish(error);
    });
  }

  // The reply is sent.
  void finish(error_code error) {
    if (error || has_left_) return close();
    const auto next = keeps_ ? &Connection::read_header : &Connection::linger;
    if (!is_watching_) return (this->*next)();
    next_ = next;  // once nothing is being read
    stream_.cancel();
  }

  // Closes in a way that lets the client read the reply although not all of its request was read.
  void linger() {
    error_code ignored;
    stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    stream_.expires_after(seconds(kLingerSeconds));
    discard();
  }

  void discard() {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(kLeastBuffer),
                            [self = shared_from_this()](error_code error, size_t) {
                              if (error) return self->close();
                              self->discard();
                            });
  }

  void drop_answer() {
    answer_.reset();
    while_answering_.reset();
  }

  void close() {
    drop_answer();
    error_code ignored;
    stream_.socket().close(ignored);
  }

  const std::shared_ptr<Connections> all_;
  const asio::ip::address client_;
  const bool is_reserve_;
  uint64_t number_ = 0;  // in Connections::open; 0: not there
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  std::optional<bhttp::request_parser<bhttp::string_body>> parser_;
  std::optional<bhttp::response<bhttp::empty_body>> go_on_, head_;
  std::optional<bhttp::response_serializer<bhttp::empty_body>> head_serializer_;
  std::optional<bhttp::response<bhttp::string_body>> response_;
  Message message_;
  std::unique_ptr<Answer> answer_;
  // Nothing else holds the connection where its buffer is full, so that it reads nothing.
  std::shared_ptr<Connection> while_answering_;
  std::string chunk_;  // being sent
  bool streams_ = false;
  bool keeps_ = true;  // the connection stays open after this reply
  bool is_watching_ = false, is_writing_ = false;
  // The client has ended its half. Asio reports that once: another read would wait for the timeout.
  bool has_left_ = false;
  std::atomic<bool> is_idle_ = false, gives_way_ = false;
  std::atomic<bool> is_awake_ = false;    // it is in Connections::awake, or will pump
  void (Connection::*next_)() = nullptr;  // follows when the watching read has ended
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

enum class Admission { kServed, kReserve, kNone };

Admission admit(const asio::ip::address& client, Connections& all) {
  const int64_t most = all.options.connections, most_of_client = all.options.client_connections;
  std::shared_ptr<Connection> oldest;
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.of_client.find(client);
    const OpenCount mine = found == all.of_client.end() ? OpenCount{} : found->second;
    if (all.count.served < most && mine.served < most_of_client) return Admission::kServed;
    if (all.count.in_reserve < most && mine.in_reserve < most_of_client) return Admission::kReserve;
    for (const auto& [number, each] : all.open) {
      if (!each->gives_way(client)) continue;
      oldest = each->weak_from_this().lock();
      if (oldest != nullptr) break;
    }
  }
  if (oldest == nullptr) return Admission::kNone;
  oldest->end(true);
  return Admission::kReserve;
}

}  // namespace

void open_connection(asio::ip::tcp::socket socket, std::shared_ptr<Connections> all) {
  error_code ignored, unknown;
  const asio::ip::address client = client_of(socket.remote_endpoint(unknown).address());
  const Admission admission = unknown ? Admission::kNone : admit(client, *all);
  if (admission == Admission::kNone) return;
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);  // tokens leave as they come
  // Else the system would take megabytes from the server for a client that takes nothing.
  socket.set_option(asio::socket_base::send_buffer_size(64 << 10), ignored);
  const auto connection = std::make_shared<Connection>(std::move(socket), std::move(all), client,
                                                       admission == Admission::kReserve);
  connection->enter();
  connection->start();
}

void end_connections(Connections& all, bool only_idle) {
  std::vector<std::shared_ptr<Connection>> open;
  {
    const std::lock_guard lock(all.mutex);
    for (const auto& [number, each] : all.open)
      if (auto connection = each->weak_from_this().lock()) open.push_back(std::move(connection));
  }
  for (const auto& connection : open) connection->end(only_idle);
}

}  // namespace ridge::http
