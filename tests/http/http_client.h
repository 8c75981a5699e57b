// SPDX-License-Identifier: Apache-2.0
// A small HTTP client on plain sockets, independent of the library under the server. It can also
// send what is not HTTP.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

namespace ridge::http {

struct Response {
  int status = 0;                              // 0: the connection ended before a whole reply
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks joined
};

class HttpClient {
 public:
  // `window_bytes`: how much the server can send ahead of `read`; 0: what the system thinks best.
  // `host`: the last byte of the client's own address, 127.0.0.1 for 1.
  explicit HttpClient(int64_t port, int window_bytes = 0, uint32_t host = 1)
      : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval limit{60, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (window_bytes > 0)
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &window_bytes, sizeof window_bytes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host);
    if (host != 1) ::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_open_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~HttpClient() { ::close(socket_); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  bool is_open() const { return is_open_; }
  double age_s() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  void send(const std::string& method,
            const std::string& path,
            const std::string& body,
            const std::string& headers = "") {
    send(method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  Response get(const std::string& path, const std::string& headers = "") {
    send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n");
    return read();
  }
  Response post(const std::string& path, const std::string& body, const std::string& headers = "") {
    send("POST", path, body, headers);
    return read();
  }

  // The next reply; without a body if it is one to HEAD.
  Response read(bool has_body = true) {
    Response response;
    std::string line;
    if (!read_line(line) || !line.starts_with("HTTP/1.1 ")) return response;
    const int status = std::atoi(line.c_str() + 9);
    while (read_line(line) && !line.empty()) {
      const size_t colon = line.find(':');
      std::string name = line.substr(0, colon);
      std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
      response.headers[name] = line.substr(std::min(line.size(), colon + 2));
    }
    if (status == 100) return read(has_body);
    if (has_body && !read_body(response)) return response;
    response.status = status;
    return response;
  }
  // Closes the sending half.
  void end_sending() { ::shutdown(socket_, SHUT_WR); }
  // Lets the connection break off when the client goes, instead of closing it.
  void break_off() {
    const linger at_once{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
  // Reads a few bytes more and forgets all that were read; false if the connection has ended.
  bool skim() {
    received_.clear();
    return receive();
  }
  // Whether the server closes the connection, without another byte.
  bool is_closed() { return received_.empty() && !receive() && !has_timed_out_; }

  // Bytes of the stream up to and including `part`; empty if it ends before.
  std::string read_until(const std::string& part) {
    size_t at = 0;
    while ((at = received_.find(part)) == std::string::npos)
      if (!receive()) return "";
    return take(at + part.size());
  }
  // Returns the bytes that come until the server closes the connection.
  std::string read_to_end() {
    while (receive()) {
    }
    return take(received_.size());
  }

 private:
  bool read_body(Response& response) {
    if (response.headers["transfer-encoding"] != "chunked") {
      const size_t size = std::strtoul(response.headers["content-length"].c_str(), nullptr, 10);
      while (received_.size() < size)
        if (!receive()) return false;
      response.body = take(size);
      return true;
    }
    for (std::string line; read_line(line);) {
      const size_t size = std::strtoul(line.c_str(), nullptr, 16);
      while (received_.size() < size + 2)
        if (!receive()) return false;
      response.body += take(size);
      take(2);
      if (size == 0) return true;
    }
    return false;
  }
  bool read_line(std::string& line) {
    line = read_until("\r\n");
    if (line.empty()) return false;
    line.resize(line.size() - 2);
    return true;
  }
  std::string take(size_t size) {
    std::string taken = received_.substr(0, size);
    received_.erase(0, size);
    return taken;
  }
  bool receive() {
    char bytes[4096];
    const ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
    has_timed_out_ = count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (count <= 0) return false;
    received_.append(bytes, static_cast<size_t>(count));
    return true;
  }

  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  int socket_;
  bool is_open_ = false, has_timed_out_ = false;
  std::string received_;
};

}  // namespace ridge::http
