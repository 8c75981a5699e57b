// SPDX-License-Identifier: Apache-2.0
// Plain messages between a server and a site, without sockets or an HTTP library.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ridge::http {

struct Message {
  std::string method;         // "GET"
  std::string path;           // without the query
  std::string authorization;  // the header's value; empty if there is none
  std::string body;
  std::string query = "";  // the part after "?" in the target
  std::string host = "";   // the header's value, as is `origin`; empty if there is none
  std::string origin = "";
};

// An answer that is made while its client waits. Its end of life cancels what is left of it. Called
// by one thread at a time.
class Answer {
 public:
  virtual ~Answer() = default;
  struct Piece {
    std::string bytes;
    bool is_last = false;
    int status = 200;  // counts for an answer that is sent as a whole
  };
  // Takes the bytes that are ready. An answer that is sent as a whole has none before its last
  // piece.
  virtual Piece take() = 0;
};

struct Reply {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::unique_ptr<Answer> answer = nullptr;  // if set, it gives the body
  bool streams = false;                      // the answer's pieces are sent as they come
};

// Replies to requests. Any number of threads call it at once; it does not block and does not throw.
class Site {
 public:
  virtual ~Site() = default;
  // Called before a body is read: the reply to a request that is refused without it.
  virtual std::optional<Reply> refuse(const Message& head) const = 0;
  // `wake` may be called on any thread whenever the answer may have more; it is cheap and may
  // outlive the answer.
  virtual Reply reply(const Message& message, std::function<void()> wake) = 0;
  // The reply to bytes that are no valid request.
  virtual Reply fault(int status, const std::string& message) const = 0;
  // Whether the request asks how the server is: it is answered where the server has no connection
  // left for others.
  virtual bool asks_for_state(const Message& head) const = 0;
};

}  // namespace ridge::http
