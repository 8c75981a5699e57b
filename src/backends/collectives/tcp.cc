// SPDX-License-Identifier: Apache-2.0
// A star of sockets: in each exchange every rank sends a message to the first one, which sends all
// of them back.
#include "backends/collectives/tcp.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <thread>
#include <utility>

#include "backends/collectives/add_parts.h"
#include "base/error.h"

namespace ridge::backends {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kGreeting = 0x52494447;  // "RIDG": another program's port answers otherwise
using Greeting = std::array<uint32_t, 3>;   // kGreeting, the rank, the number of ranks
constexpr uint64_t kMostBytes = uint64_t{1} << 32;
constexpr size_t kMostStrangers = 64;  // also in the queue, where a rank must find a place
constexpr const char* kJoining = "joining the ranks";

class Socket {
 public:
  explicit Socket(int handle = -1) : handle_(handle) {}
  ~Socket() {
    if (handle_ >= 0) ::close(handle_);
  }
  Socket(Socket&& other) noexcept : handle_(std::exchange(other.handle_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  int handle() const { return handle_; }
  bool is_open() const { return handle_ >= 0; }

 private:
  int handle_;
};

// The end of the time in which the other ranks must come.
class Deadline {
 public:
  explicit Deadline(double seconds)
      : seconds_(seconds),
        end_(Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}
  int left_ms() const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end_ - Clock::now());
    return static_cast<int>(std::max<int64_t>(left.count(), 0));
  }
  double seconds() const { return seconds_; }

 private:
  double seconds_;
  Clock::time_point end_;
};

[[noreturn]] void fail(const TcpOptions& o, std::string_view what, const std::string& why) {
  throw runtime_error("[ranks] rank {} of {}: {}: {}", o.rank, o.ranks, what, why);
}

// Waits until one of them is ready.
void wait_for(std::span<pollfd> sockets,
              const Deadline& deadline,
              const TcpOptions& o,
              std::string_view what) {
  int ready = 0;
  do {
    ready = ::poll(sockets.data(), sockets.size(), deadline.left_ms());
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) fail(o, what, fmt::format("nothing came for {:g} s", deadline.seconds()));
  if (ready < 0) fail(o, what, std::strerror(errno));
}

void wait_for(const Socket& socket,
              short events,
              const Deadline& deadline,
              const TcpOptions& o,
              std::string_view what) {
  pollfd waiting{socket.handle(), events, 0};
  wait_for({&waiting, 1}, deadline, o, what);
}

void send_all(const Socket& socket,
              const void* data,
              size_t bytes,
              const Deadline& deadline,
              const TcpOptions& o,
              std::string_view what) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    wait_for(socket, POLLOUT, deadline, o, what);
    const ssize_t sent = ::send(socket.handle(), from, bytes, MSG_NOSIGNAL);
    if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (sent < 0) fail(o, what, std::strerror(errno));
    from += sent;
    bytes -= static_cast<size_t>(sent);
  }
}

void receive_all(const Socket& socket,
                 void* data,
                 size_t bytes,
                 const Deadline& deadline,
                 const TcpOptions& o,
                 std::string_view what) {
  auto* to = static_cast<char*>(data);
  while (bytes > 0) {
    wait_for(socket, POLLIN, deadline, o, what);
    const ssize_t got = ::recv(socket.handle(), to, bytes, 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) fail(o, what, std::strerror(errno));
    if (got == 0) fail(o, what, "another rank has ended");
    to += got;
    bytes -= static_cast<size_t>(got);
  }
}

struct Addresses {
  Addresses(const TcpOptions& o, bool listens) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = listens ? AI_PASSIVE : 0;
    if (const int code =
            ::getaddrinfo(o.address.c_str(), std::to_string(o.port).c_str(), &hints, &first))
      fail(o, fmt::format("finding {}", o.address), ::gai_strerror(code));
  }
  ~Addresses() { ::freeaddrinfo(first); }
  Addresses(const Addresses&) = delete;
  addrinfo* first = nullptr;
};

void send_at_once(const Socket& socket) {
  const int on = 1;
  ::setsockopt(socket.handle(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// At port 0: at any free one.
Socket listen_at(const TcpOptions& o) {
  const Addresses addresses(o, true);
  std::string why = "no address";
  for (const addrinfo* each = addresses.first; each != nullptr; each = each->ai_next) {
    Socket socket(::socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, each->ai_protocol));
    const int on = 1;
    if (socket.is_open()) ::setsockopt(socket.handle(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (socket.is_open() && ::bind(socket.handle(), each->ai_addr, each->ai_addrlen) == 0 &&
        ::listen(socket.handle(), o.ranks + static_cast<int>(kMostStrangers)) == 0)
      return socket;
    why = std::strerror(errno);
  }
  fail(o, fmt::format("listening at {}:{}", o.address, o.port), why);
}

// Where a socket ends on this side: the number of its address and its port.
TcpOptions own_end(const Socket& socket, const TcpOptions& o) {
  sockaddr_storage address = {};
  socklen_t bytes = sizeof address;
  char host[NI_MAXHOST], port[NI_MAXSERV];
  auto* to = reinterpret_cast<sockaddr*>(&address);
  if (::getsockname(socket.handle(), to, &bytes) != 0) fail(o, kJoining, std::strerror(errno));
  if (const int code = ::getnameinfo(to, bytes, host, sizeof host, port, sizeof port,
                                     NI_NUMERICHOST | NI_NUMERICSERV))
    fail(o, kJoining, ::gai_strerror(code));
  return {host, std::stoi(port)};
}

// The first rank may start to listen later.
Socket connect_to(const TcpOptions& o, const Deadline& deadline) {
  const Addresses addresses(o, false);
  std::string why;
  while (deadline.left_ms() > 0) {
    for (const addrinfo* each = addresses.first; each != nullptr; each = each->ai_next) {
      Socket socket(::socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, each->ai_protocol));
      if (socket.is_open() && ::connect(socket.handle(), each->ai_addr, each->ai_addrlen) == 0)
        return socket;
      why = std::strerror(errno);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  fail(o, fmt::format("reaching rank 0 at {}:{} for {:g} s", o.address, o.port, deadline.seconds()),
       why);
}

// A connection that has not said which rank it is. A port scanner never does.
struct Caller {
  enum class State { kWaits, kHasGreeted, kIsGone };

  State read() {
    auto* to = reinterpret_cast<char*>(greeting.data());
    const ssize_t got = ::recv(socket.handle(), to + bytes, sizeof greeting - bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return State::kWaits;
    if (got <= 0) return State::kIsGone;
    bytes += static_cast<size_t>(got);
    if (bytes < sizeof greeting) return State::kWaits;
    return greeting[0] == kGreeting ? State::kHasGreeted : State::kIsGone;
  }

  Socket socket;
  Greeting greeting = {};
  size_t bytes = 0;
};

void copy_to(const Exchanged& tensor,
             const std::string& bytes,
             const TcpOptions& o,
             std::string_view what) {
  if (std::ssize(bytes) != storage_bytes(tensor.dtype, tensor.elements))
    fail(o, what, "the ranks sent different sizes");
  std::memcpy(tensor.data, bytes.data(), bytes.size());
}

// `all` are the messages of the ranks, in which the tensor begins at a byte.
void add_up(const Exchanged& to, const std::vector<std::string>& all, size_t begin, bool average) {
  std::vector<const std::byte*> parts;
  for (const std::string& each : all)
    parts.push_back(reinterpret_cast<const std::byte*>(each.data() + begin));
  add_parts(to, parts, average);
}

class TcpCommunicator final : public Communicator {
 public:
  // The first rank accepts the others at its listener.
  TcpCommunicator(const TcpOptions& options, const Socket& listener) : options_(options) {
    const Deadline deadline(options.join_s > 0 ? options.join_s : options.timeout_s);
    if (options_.rank == 0)
      accept_ranks(listener, deadline);
    else
      connect(deadline);
  }

  const TcpOptions& options() const { return options_; }
  // The address by which others reach this rank's host.
  std::string address() const {
    return options_.rank == 0 ? options_.address : own_end(sockets_[0], options_).address;
  }

  int rank() const override { return options_.rank; }
  int size() const override { return options_.ranks; }
  std::string library() const override { return "TCP"; }

  std::vector<std::string> gather_texts(const std::string& text) override {
    return exchange(text, "a gathering of texts");
  }

  bool find_any(bool here) override {
    for (const std::string& each : exchange(here ? "1" : "0", "a barrier"))
      if (each == "1") return true;
    return false;
  }

  // Every rank adds up the tensors of all in the order of the ranks.
  void all_reduce(std::span<const Exchanged> tensors,
                  bool average,
                  std::string_view what) override {
    std::string own;
    for (const Exchanged& each : tensors)
      append(own, each.data, storage_bytes(each.dtype, each.elements));
    const std::vector<std::string> all = exchange_equal(own, what);
    size_t begin = 0;
    for (const Exchanged& each : tensors) {
      add_up(each, all, begin, average);
      begin += static_cast<size_t>(storage_bytes(each.dtype, each.elements));
    }
  }

  void all_gather(std::span<const Divided> tensors, std::string_view what) override {
    std::string own;
    for (const Divided& each : tensors) append(own, each.part, each.part_bytes());
    const std::vector<std::string> all = exchange_equal(own, what);
    size_t begin = 0;
    for (const Divided& each : tensors) {
      const auto bytes = static_cast<size_t>(each.part_bytes());
      for (size_t rank = 0; rank < all.size(); ++rank)
        std::memcpy(each.whole + rank * bytes, all[rank].data() + begin, bytes);
      begin += bytes;
    }
  }

  void send(const Exchanged& tensor, std::string_view what) override {
    std::string bytes;
    append(bytes, tensor.data, storage_bytes(tensor.dtype, tensor.elements));
    send(sockets_[0], bytes, Deadline(options_.timeout_s), what);
  }

  void receive(const Exchanged& tensor, std::string_view what) override {
    const std::string bytes = receive(sockets_[0], Deadline(options_.timeout_s), what);
    copy_to(tensor, bytes, options_, what);
  }

  void reduce_scatter(std::span<const Divided> tensors,
                      bool average,
                      std::string_view what) override {
    std::string own;
    for (const Divided& each : tensors) append(own, each.whole, options_.ranks * each.part_bytes());
    const std::vector<std::string> all = exchange_equal(own, what);
    size_t begin = 0;
    for (const Divided& each : tensors) {
      const auto bytes = static_cast<size_t>(each.part_bytes());
      add_up({each.part, each.elements, each.dtype}, all,
             begin + static_cast<size_t>(options_.rank) * bytes, average);
      begin += static_cast<size_t>(options_.ranks) * bytes;
    }
  }

 private:
  void connect(const Deadline& deadline) {
    Socket& first = sockets_.emplace_back(connect_to(options_, deadline));
    send_at_once(first);
    const Greeting greeting = {kGreeting, static_cast<uint32_t>(options_.rank),
                               static_cast<uint32_t>(options_.ranks)};
    send_all(first, greeting.data(), sizeof greeting, deadline, options_, kJoining);
  }
  // Connections that say nothing, or no greeting, do not keep the ranks from joining.
  void accept_ranks(const Socket& listener, const Deadline& deadline) {
    sockets_.resize(static_cast<size_t>(options_.ranks - 1));
    std::vector<Caller> callers;
    for (int joined = 1; joined < options_.ranks;) {
      std::vector<pollfd> waiting = {{listener.handle(), POLLIN, 0}};
      for (const Caller& each : callers) waiting.push_back({each.socket.handle(), POLLIN, 0});
      wait_for(
          waiting, deadline, options_,
          fmt::format("{} of {} ranks have joined, not {}", joined, options_.ranks, missing()));
      std::erase_if(callers, [&](Caller& each) {
        if (waiting[static_cast<size_t>(&each - callers.data()) + 1].revents == 0) return false;
        const Caller::State state = each.read();
        if (state == Caller::State::kHasGreeted) admit(each), ++joined;
        return state != Caller::State::kWaits;
      });
      if (waiting[0].revents == 0) continue;
      if (callers.size() == static_cast<size_t>(options_.ranks) + kMostStrangers)
        callers.erase(callers.begin());
      callers.push_back(
          {.socket = Socket(::accept4(listener.handle(), nullptr, nullptr, SOCK_CLOEXEC))});
      if (!callers.back().socket.is_open()) callers.pop_back();
    }
  }
  void admit(Caller& caller) {
    const auto& [_, rank, ranks] = caller.greeting;
    if (ranks != static_cast<uint32_t>(options_.ranks) || rank < 1 || rank >= ranks ||
        sockets_[rank - 1].is_open())
      fail(options_, kJoining, fmt::format("a process came as rank {} of {}", rank, ranks));
    send_at_once(caller.socket);
    sockets_[rank - 1] = std::move(caller.socket);
  }

  // The ranks that have not joined.
  std::string missing() const {
    std::string text;
    for (size_t i = 0; i < sockets_.size(); ++i)
      if (!sockets_[i].is_open()) text += fmt::format("{}{}", text.empty() ? "" : ", ", i + 1);
    return text;
  }

  static void append(std::string& text, const std::byte* data, int64_t bytes) {
    text.append(reinterpret_cast<const char*>(data), static_cast<size_t>(bytes));
  }
  std::vector<std::string> exchange_equal(const std::string& own, std::string_view what) const {
    std::vector<std::string> all = exchange(own, what);
    for (const std::string& each : all)
      if (each.size() != own.size()) fail(options_, what, "the ranks sent different sizes");
    return all;
  }
  void send(const Socket& socket,
            const std::string& text,
            const Deadline& deadline,
            std::string_view what) const {
    const uint64_t bytes = text.size();
    send_all(socket, &bytes, sizeof bytes, deadline, options_, what);
    send_all(socket, text.data(), text.size(), deadline, options_, what);
  }
  std::string receive(const Socket& socket, const Deadline& deadline, std::string_view what) const {
    uint64_t bytes = 0;
    receive_all(socket, &bytes, sizeof bytes, deadline, options_, what);
    if (bytes > kMostBytes) fail(options_, what, fmt::format("a message of {} bytes", bytes));
    std::string text(bytes, ' ');
    receive_all(socket, text.data(), text.size(), deadline, options_, what);
    return text;
  }

  std::vector<std::string> exchange(const std::string& own, std::string_view what) const {
    const Deadline deadline(options_.timeout_s);
    std::vector<std::string> all = {own};
    if (options_.rank > 0) {
      send(sockets_[0], own, deadline, what);
      all.clear();
      for (int i = 0; i < options_.ranks; ++i) all.push_back(receive(sockets_[0], deadline, what));
      return all;
    }
    for (const Socket& each : sockets_) all.push_back(receive(each, deadline, what));
    for (const Socket& each : sockets_)
      for (const std::string& text : all) send(each, text, deadline, what);
    return all;
  }

  TcpOptions options_;
  std::vector<Socket> sockets_;  // to the first rank; the first rank has one to each other
};

std::unique_ptr<TcpCommunicator> join(const TcpOptions& options) {
  return std::make_unique<TcpCommunicator>(options,
                                           options.rank == 0 ? listen_at(options) : Socket());
}

class TcpWorld final : public RankWorld {
 public:
  explicit TcpWorld(const TcpOptions& options) : all_(join(options)) {}

  int rank() const override { return all_->rank(); }
  int size() const override { return all_->size(); }

  // Every rank listens before it tells the others its number and where.
  std::unique_ptr<Communicator> split(int number) override {
    TcpOptions own{all_->address(), 0, 0, 0, all_->options().timeout_s, all_->options().join_s};
    const Socket listener = listen_at(own);
    const std::string head = std::to_string(number) + " ";
    std::string first;
    const std::vector<std::string> texts =
        all_->gather(fmt::format("{}{} {}", head, own.address, own_end(listener, own).port));
    for (int rank = 0; rank < size(); ++rank) {
      const std::string& each = texts[static_cast<size_t>(rank)];
      if (!each.starts_with(head)) continue;
      if (own.ranks++ == 0) first = each.substr(head.size());
      if (rank < this->rank()) ++own.rank;
    }
    const size_t space = first.rfind(' ');
    own.address = first.substr(0, space), own.port = std::stoi(first.substr(space));
    return std::make_unique<TcpCommunicator>(own, listener);
  }

 private:
  std::unique_ptr<TcpCommunicator> all_;
};

}  // namespace

std::unique_ptr<Communicator> join_tcp(const TcpOptions& options) { return join(options); }

std::unique_ptr<RankWorld> join_tcp_world(const TcpOptions& options) {
  return std::make_unique<TcpWorld>(options);
}

}  // namespace ridge::backends
