// SPDX-License-Identifier: Apache-2.0
// Each request runs an event loop of its own, so that every wait has a limit.
#include "http/client.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/printable.h"

namespace ridge::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using boost::system::error_code;

Url Url::parse(const std::string& text) {
  const auto refuse = [&](const char* why) {
    throw usage_error("[url] expected http://HOST[:PORT][/PATH], got {}{}", printable(text), why);
  };
  constexpr std::string_view kScheme = "http://";
  if (text.starts_with("https://")) refuse("; TLS is not supported");
  if (!text.starts_with(kScheme)) refuse("");
  std::string rest = text.substr(kScheme.size());
  Url url;
  const size_t slash = rest.find('/');
  if (slash != std::string::npos) url.path = rest.substr(slash);
  while (url.path.ends_with('/')) url.path.pop_back();
  rest = rest.substr(0, slash);
  const size_t bracket = rest.starts_with('[') ? rest.find(']') : 0;
  if (bracket == std::string::npos) refuse("");
  const size_t colon = rest.find(':', bracket);
  url.host = bracket > 0 ? rest.substr(1, bracket - 1) : rest.substr(0, colon);
  url.port = colon == std::string::npos ? "80" : rest.substr(colon + 1);
  const bool is_number = url.port.find_first_not_of("0123456789") == std::string::npos;
  if (url.host.empty() || url.port.empty() || url.port.size() > 5 || !is_number) refuse("");
  for (unsigned char c : text)
    if (c <= ' ' || c == 0x7f) refuse("");
  return url;
}

class Client::Impl {
 public:
  Impl(Url url, double silence_s)
      : url_(std::move(url)),
        silence_(std::chrono::nanoseconds(static_cast<int64_t>(silence_s * 1e9))) {}

  int send(const ClientRequest& request, const std::function<void(std::string_view)>& receive) {
    bool has_begun = false;
    const bool is_kept = stream_.has_value();
    try {
      return attempt(request, receive, has_begun);
    } catch (const boost::system::system_error& error) {
      stream_.reset();
      if (!is_kept || has_begun) throw failure(error.code());
    }
    try {
      return attempt(request, receive, has_begun);
    } catch (const boost::system::system_error& error) {
      stream_.reset();
      throw failure(error.code());
    }
  }

 private:
  Error failure(error_code code) const {
    return runtime_error("[http] no whole reply from {} port {}: {}", printable(url_.host),
                         url_.port, code.message());
  }

  // Runs one operation to its end.
  template <typename Start>
  void wait(const Start& start) {
    error_code failed = asio::error::would_block;
    start([&failed](error_code error, auto&&...) { failed = error; });
    loop_.restart();
    loop_.run();
    if (failed) throw boost::system::system_error(failed);
  }

  void connect() {
    asio::ip::tcp::resolver resolver(loop_);
    const auto found = resolver.resolve(url_.host, url_.port);
    stream_.emplace(loop_);
    buffer_.clear();
    stream_->expires_after(silence_);
    wait([&](auto done) { stream_->async_connect(found, done); });
    stream_->socket().set_option(asio::ip::tcp::no_delay(true));
  }

  int attempt(const ClientRequest& request,
              const std::function<void(std::string_view)>& receive,
              bool& has_begun) {
    if (!stream_.has_value()) connect();
    bhttp::request<bhttp::string_body> message(bhttp::string_to_verb(request.method),
                                               url_.path + request.path, 11);
    message.set(bhttp::field::host, url_.host + ":" + url_.port);
    message.set(bhttp::field::user_agent, "ridge");
    for (const auto& [name, value] : request.headers) message.set(name, value);
    message.body() = request.body;
    message.prepare_payload();
    stream_->expires_after(silence_);
    wait([&](auto done) { bhttp::async_write(*stream_, message, done); });
    bhttp::response_parser<bhttp::string_body> parser;
    parser.body_limit(std::numeric_limits<uint64_t>::max());  // it is handed over as it comes
    stream_->expires_after(silence_);
    wait([&](auto done) { bhttp::async_read_header(*stream_, buffer_, parser, done); });
    has_begun = true;
    while (!parser.is_done()) {
      stream_->expires_after(silence_);
      wait([&](auto done) { bhttp::async_read_some(*stream_, buffer_, parser, done); });
      hand_over(parser.get().body(), receive);
    }
    hand_over(parser.get().body(), receive);
    if (!parser.get().keep_alive()) stream_.reset();
    return parser.get().result_int();
  }

  static void hand_over(std::string& body, const std::function<void(std::string_view)>& receive) {
    if (!body.empty()) receive(body);
    body.clear();
  }

  const Url url_;
  const std::chrono::nanoseconds silence_;
  asio::io_context loop_;
  std::optional<beast::tcp_stream> stream_;
  beast::flat_buffer buffer_;
};

Client::Client(Url url, double silence_s)
    : impl_(std::make_unique<Impl>(std::move(url), silence_s)) {}
Client::~Client() = default;
int Client::send(const ClientRequest& request,
                 const std::function<void(std::string_view)>& receive) {
  return impl_->send(request, receive);
}

}  // namespace ridge::http
