// SPDX-License-Identifier: Apache-2.0
// A real server on a free port: connections, limits, streaming, and clients that leave.
#include "http/server.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/error.h"
#include "http/client.h"
#include "http/http_client.h"
#include "http/served_model_test.h"

namespace ridge::http {
namespace {

constexpr const char* kShort = R"({"prompt": "Once", "max_tokens": 3, "temperature": 0})";
constexpr const char* kWhole = R"({"prompt": "Once", "max_tokens": 192, "ignore_eos": true})";
constexpr const char* kStream =
    R"({"prompt": "Once", "max_tokens": 100, "temperature": 0, "stream": true, "ignore_eos": true})";

class ServerTest : public ServedModelTest {
 protected:
  explicit ServerTest(ApiKeys keys = {}, ServerOptions options = {})
      : ServedModelTest(std::move(keys), 1, 2) {
    options.port = 0;
    api_.open(model_);
    server_ = std::make_unique<Server>(api_, options);
  }
  int64_t port() const { return server_->port(); }

  // A request that holds the engine's thread until the gate opens.
  std::unique_ptr<serve::AnswerReader> hold(const std::shared_ptr<serve::Gate>& gate) {
    auto reader = std::make_unique<serve::AnswerReader>(
        engine_, serve::Request{.prompt = {5, 6}, .max_tokens = kCapacity, .ignores_end = true},
        gate);
    reader->await(1);
    return reader;
  }
  int64_t cancelled() const {
    return engine_.counts().finished[static_cast<size_t>(serve::Finish::kCancelled)];
  }

  std::unique_ptr<Server> server_;
};

TEST_F(ServerTest, AnswersManyRequestsOnAConnection) {
  HttpClient client(port());
  const std::string text = alone(tokenizer_.encode("Once"), 3).text;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client.get("/health").status, 200);
    const Response made = client.post("/v1/completions", kShort);
    EXPECT_EQ(made.status, 200);
    EXPECT_EQ(made.headers.at("content-type"), "application/json");
    EXPECT_EQ(json::parse(made.body).at("choices").at(0).at("text"), text);
    EXPECT_EQ(client.get("/nothing?x=1").status, 404);
    EXPECT_EQ(client.get("/v1/completions").headers.at("allow"), "POST");
    client.send("HEAD /health HTTP/1.1\r\nHost: test\r\n\r\n");
    EXPECT_EQ(client.read(false).status, 200);
  }
  client.get("/health?", "Connection: close\r\n");
  EXPECT_TRUE(client.is_closed());
}

TEST_F(ServerTest, StreamsInChunksAndGoesOn) {
  HttpClient client(port());
  const std::string text = alone(tokenizer_.encode("Once"), 3).text;
  for (int i = 0; i < 2; ++i) {
    const Response made = client.post("/v1/completions", kStream);
    EXPECT_EQ(made.status, 200);
    EXPECT_EQ(made.headers.at("content-type"), "text/event-stream");
    EXPECT_EQ(made.headers.at("transfer-encoding"), "chunked");
    EXPECT_EQ(events(made.body).back(), "[DONE]");
  }
  EXPECT_EQ(client.get("/health").status, 200);
}

// The client's kept connection ended with the server, and is replaced once.
TEST_F(ServerTest, ClientsConnectAgainAfterARestart) {
  ServerOptions options;
  options.port = static_cast<int>(port());
  Client client(Url::parse("http://127.0.0.1:" + std::to_string(port())), 60);
  const auto health = [&] { return client.send({.path = "/health"}, [](std::string_view) {}); };
  EXPECT_EQ(health(), 200);
  server_.reset();
  server_ = std::make_unique<Server>(api_, options);
  EXPECT_EQ(health(), 200);
  server_.reset();
  EXPECT_THROW(health(), Error);
}

// Without a descriptor for a connection, the server waits for one.
TEST_F(ServerTest, AcceptsAgainOnceThereAreDescriptors) {
  const int waiting = ::socket(AF_INET, SOCK_STREAM, 0), next = ::dup(waiting);
  ASSERT_GE(next, 0);
  ::close(next);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit full{static_cast<rlim_t>(next), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &full), 0);
  sockaddr_in server{};
  server.sin_family = AF_INET;
  server.sin_port = htons(static_cast<uint16_t>(port()));
  server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int connected =
      ::connect(waiting, reinterpret_cast<const sockaddr*>(&server), sizeof server);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(server_->connections(), 0);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_EQ(connected, 0);
  ::close(waiting);
  EXPECT_EQ(HttpClient(port()).get("/health").status, 200);
}

// A client may send its next request while the last one is answered.
TEST_F(ServerTest, AnswersInTheOrderOfRequests) {
  HttpClient client(port());
  client.send("POST", "/v1/completions", kStream);
  client.send("POST", "/v1/completions", kShort);
  client.send("GET", "/version", "");
  EXPECT_EQ(events(client.read().body).back(), "[DONE]");
  EXPECT_EQ(json::parse(client.read().body).at("object"), "text_completion");
  EXPECT_EQ(json::parse(client.read().body).at("version"), "ridge test");
}

TEST_F(ServerTest, TokensComeOneByOne) {
  const auto gate = std::make_shared<serve::Gate>();
  const auto held = hold(gate);
  HttpClient client(port());
  client.send("POST", "/v1/chat/completions",
              R"({"messages": [{"role": "user", "content": "Hi"}], "stream": true})");
  // The role comes although the engine stands still, and so does health.
  EXPECT_NE(client.read_until("\"role\":\"assistant\""), "");
  EXPECT_EQ(HttpClient(port()).get("/health").status, 200);
  EXPECT_EQ(HttpClient(port()).get("/metrics").status, 200);
  engine_.cancel(held->handle().id);
  gate->open();
  EXPECT_NE(client.read_until("[DONE]"), "");
}

TEST_F(ServerTest, ClientsThatLeaveAreDroppedInQueueAndDecode) {
  const auto gate = std::make_shared<serve::Gate>();
  const auto held = hold(gate);
  {
    HttpClient waits(port()), streams(port());
    waits.send("POST", "/v1/completions", kWhole);
    streams.send("POST", "/v1/completions", kStream);
    await([&] { return engine_.counts().waiting == 2; });
  }
  await([&] { return server_->connections() == 0; });
  engine_.cancel(held->handle().id);
  gate->open();
  await([&] { return engine_.is_idle(); });
  EXPECT_EQ(cancelled(), 3);
  {
    HttpClient reads(port());
    reads.send("POST", "/v1/completions", kStream);
    EXPECT_NE(reads.read_until("data: "), "");
  }
  await([&] { return engine_.is_idle() && server_->connections() == 0; });
  EXPECT_EQ(HttpClient(port()).post("/v1/completions", kShort).status, 200);
}

TEST_F(ServerTest, AFullQueueIsSaidWithTimeToRetry) {
  const auto gate = std::make_shared<serve::Gate>();
  const auto held = hold(gate);
  HttpClient first(port()), second(port()), third(port());
  first.send("POST", "/v1/completions", kShort);
  second.send("POST", "/v1/completions", kShort);
  await([&] { return engine_.counts().waiting == 2; });
  const Response refused = third.post("/v1/completions", kShort);
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
  EXPECT_EQ(json::parse(refused.body).at("error").at("code"), "queue_full");
  engine_.cancel(held->handle().id);
  gate->open();
  EXPECT_EQ(first.read().status, 200);
  EXPECT_EQ(second.read().status, 200);
  EXPECT_EQ(third.post("/v1/completions", kShort).status, 200);
}

TEST_F(ServerTest, BytesThatAreNoRequestAreErrors) {
  const auto answer = [&](const std::string& bytes) {
    HttpClient client(port());
    client.send(bytes);
    const Response response = client.read();
    EXPECT_TRUE(client.is_closed());
    if (response.status != 0) {
      EXPECT_TRUE(json::parse(response.body).at("error").at("message").is_string());
    }
    return response.status;
  };
  EXPECT_EQ(answer("no request\r\n\r\n"), 400);
  EXPECT_EQ(answer("GET /health HTTP/9.9\r\n\r\n"), 400);
  EXPECT_EQ(answer("GET / HTTP/1.1\r\nbad header\r\n\r\n"), 400);
  EXPECT_EQ(answer("GET / HTTP/1.1\r\nX: " + std::string(1 << 20, 'x') + "\r\n\r\n"), 431);
  EXPECT_EQ(answer("POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n"), 413);
  EXPECT_EQ(answer("POST /v1/completions HTTP/1.1\r\nContent-Length: x\r\n\r\n"), 400);
  EXPECT_EQ(answer("POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n"),
            400);
  std::string flood = "POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 10; ++i) flood += "80000\r\n" + std::string(0x80000, ' ') + "\r\n";
  EXPECT_EQ(answer(flood), 413);
  EXPECT_EQ(HttpClient(port()).get("/health").status, 200);
}

// Larger than the buffer of what a client sends ahead.
TEST_F(ServerTest, ALargeRequestWaitsForTheAnswerBeforeIt) {
  const std::string large = R"({"prompt": "Once", "max_tokens": 3, "temperature": 0, "user": ")" +
                            std::string(17'000, 'u') + "\"}";
  for (const std::string& running : {std::string(kStream), std::string(kWhole)}) {
    HttpClient client(port());
    client.send("POST", "/v1/completions", running);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    client.send("POST", "/v1/completions", large);
    EXPECT_EQ(client.read().status, 200) << running;
    const Response second = client.read();
    EXPECT_EQ(second.status, 200) << running;
    EXPECT_EQ(json::parse(second.body).at("choices").at(0).at("text"),
              alone(tokenizer_.encode("Once"), 3).text);
  }
}

// Bodies that take long to read do not hold the threads that answer the others.
TEST_F(ServerTest, HealthIsAnsweredWhileLargeBodiesAreRead) {
  std::string ids = "0";
  while (ids.size() < 4'000'000) ids += ",0";
  const std::string body = "{\"tokens\": [" + ids + "]}";
  std::atomic<int> answered = 0;
  std::vector<std::jthread> clients;
  for (int i = 0; i < 4; ++i)
    clients.emplace_back([&] {
      HttpClient client(port());
      EXPECT_EQ(client.post("/detokenize", body).status, 400);
      ++answered;
    });
  int64_t during = 0;
  HttpClient watcher(port());
  do {
    EXPECT_EQ(watcher.get("/health").status, 200);
    during += answered < 4 ? 1 : 0;
  } while (answered < 4);
  EXPECT_GT(during, 0);
}

TEST_F(ServerTest, AClientOfHttp10GetsNoChunks) {
  HttpClient client(port());
  client.send("POST /v1/completions HTTP/1.0\r\nContent-Length: " +
              std::to_string(std::string(kStream).size()) + "\r\n\r\n" + kStream);
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_EQ(head.find("chunked"), std::string::npos) << head;
  const std::string body = client.read_to_end();
  EXPECT_EQ(events(body).back(), "[DONE]");
}

TEST_F(ServerTest, AFaultOfAHeadHasNoBody) {
  HttpClient client(port());
  client.send("HEAD /health HTTP/1.1\r\nbad header\r\n\r\n");
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_NE(head.find(" 400 "), std::string::npos) << head;
  EXPECT_EQ(head.find("Content-Length"), std::string::npos) << head;
  EXPECT_EQ(client.read_to_end(), "");
}

TEST_F(ServerTest, TellsAClientToSendItsBody) {
  HttpClient client(port());
  client.send(
      "POST /v1/completions HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 15\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("{\"prompt\": \"a\"}");
  EXPECT_EQ(client.read().status, 200);
}

TEST_F(ServerTest, DrainsWhatItHasAccepted) {
  const auto gate = std::make_shared<serve::Gate>();
  const auto held = hold(gate);
  HttpClient idle(port()), streams(port());
  EXPECT_EQ(idle.get("/health").status, 200);
  streams.send("POST", "/v1/completions", kStream);
  await([&] { return engine_.counts().waiting == 1; });
  engine_.drain();
  api_.drain();
  server_->drain();
  EXPECT_TRUE(idle.is_closed());
  await([&] { return !HttpClient(port()).is_open(); });
  engine_.cancel(held->handle().id);
  gate->open();
  EXPECT_EQ(events(streams.read().body).back(), "[DONE]");
  EXPECT_TRUE(streams.is_closed());
  await([&] { return server_->connections() == 0; });
}

TEST_F(ServerTest, StopsBesideOpenAnswers) {
  const auto gate = std::make_shared<serve::Gate>();
  const auto held = hold(gate);
  HttpClient waits(port()), idle(port());
  waits.send("POST", "/v1/completions", kStream);
  await([&] { return engine_.counts().waiting == 1; });
  server_.reset();
  gate->open();
  await([&] { return engine_.is_idle(); });
  EXPECT_EQ(waits.read_until("[DONE]"), "");
}

class SmallServerTest : public ServerTest {
 protected:
  SmallServerTest()
      : ServerTest(ApiKeys({kKey}), {.connections = 2, .idle_s = 0.2, .read_s = 0.2}) {}
};

TEST_F(SmallServerTest, RefusesBodiesWithoutAKeyUnread) {
  HttpClient client(port());
  client.send("POST /v1/completions HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n");
  EXPECT_EQ(client.read().status, 401);
  EXPECT_TRUE(client.is_closed());
}

TEST_F(SmallServerTest, ClosesWhatSendsNothing) {
  HttpClient idle(port()), half(port());
  half.send(
      "POST /v1/completions HTTP/1.1\r\nAuthorization: Bearer sk-12345678\r\nContent-Length: 9\r\n\r\n{");
  EXPECT_TRUE(idle.is_closed());
  EXPECT_TRUE(half.is_closed());
  EXPECT_EQ(HttpClient(port()).get("/health").status, 200);
}

class FullServerTest : public ServerTest {
 protected:
  FullServerTest() : ServerTest(ApiKeys({kKey}), {.connections = 2}) {}
};

TEST_F(FullServerTest, AnswersOnlyForItsState) {
  HttpClient first(port()), second(port());
  await([&] { return server_->connections() == 2; });
  const std::string key = std::string("Authorization: Bearer ") + kKey + "\r\n";
  EXPECT_EQ(HttpClient(port()).post("/v1/completions", kShort, key).status, 503);
  // A monitor of the server sees it all the same.
  HttpClient watcher(port());
  EXPECT_EQ(watcher.get("/health").status, 200);
  EXPECT_TRUE(watcher.is_closed());
  // The reserve has room for two, of which the refused one has ended a moment later.
  await([&] { return server_->connections() <= 3; });
  EXPECT_EQ(HttpClient(port()).get("/metrics", key).status, 200);
}

class CrowdedServerTest : public ServerTest {
 protected:
  CrowdedServerTest() : ServerTest({}, {.connections = 8, .client_connections = 3}) {}

  HttpClient from(uint32_t host) const { return HttpClient(port(), 0, host); }
};

TEST_F(CrowdedServerTest, AClientTakesNoMoreThanItsShare) {
  std::vector<std::unique_ptr<HttpClient>> idle;
  for (int i = 0; i < 3; ++i) idle.push_back(std::make_unique<HttpClient>(port()));
  await([&] { return server_->connections() == 3; });
  const Response refused = from(1).post("/v1/completions", kShort);
  EXPECT_EQ(refused.status, 503);
  EXPECT_NE(refused.body.find("of this client"), std::string::npos);
  EXPECT_EQ(from(1).get("/health").status, 200);
  EXPECT_EQ(from(2).post("/v1/completions", kShort).status, 200);
  idle.pop_back();
  await([&] { return server_->connections() == 2; });
  EXPECT_EQ(from(1).post("/v1/completions", kShort).status, 200);
}

TEST_F(CrowdedServerTest, AFloodOfIdleConnectionsHidesNothing) {
  std::vector<std::unique_ptr<HttpClient>> idle;
  for (int i = 0; i < 100; ++i) {
    idle.push_back(std::make_unique<HttpClient>(port()));
    if (i % 10 == 9) {
      EXPECT_EQ(from(1).get("/health").status, 200) << i;
    }
  }
  await([&] { return server_->connections() <= 6; });
  EXPECT_EQ(from(1).get("/health").status, 200);
  for (uint32_t host : {2, 3}) EXPECT_EQ(from(host).post("/v1/completions", kShort).status, 200);
}

TEST_F(CrowdedServerTest, ConnectionsInReserveWithTheirReplyGiveWay) {
  std::vector<std::unique_ptr<HttpClient>> open;
  for (int i = 0; i < 3; ++i) open.push_back(std::make_unique<HttpClient>(port()));
  await([&] { return server_->connections() == 3; });
  for (int i = 0; i < 9; ++i) {
    open.push_back(std::make_unique<HttpClient>(port()));
    EXPECT_EQ(open.back()->get("/health").status, 200) << i;
  }
}

// A reserve that is full of requests takes nobody else in, and ends none of them.
TEST_F(CrowdedServerTest, OnlyIdleConnectionsGiveWay) {
  std::vector<std::unique_ptr<HttpClient>> served, reserve;
  for (int i = 0; i < 3; ++i) served.push_back(std::make_unique<HttpClient>(port()));
  await([&] { return server_->connections() == 3; });
  for (int i = 0; i < 3; ++i) {
    reserve.push_back(std::make_unique<HttpClient>(port()));
    reserve.back()->send(
        "GET /health HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    EXPECT_NE(reserve.back()->read_until("100 Continue\r\n\r\n"), "");
  }
  EXPECT_EQ(from(1).get("/health").status, 0);
  for (auto& each : reserve) {
    each->send("{}");
    EXPECT_EQ(each->read().status, 200);
  }
}

// Has always more to say.
class EndlessSite final : public Site {
 public:
  std::optional<Reply> refuse(const Message&) const override { return std::nullopt; }
  Reply reply(const Message& message, std::function<void()>) override {
    Reply reply;
    reply.streams = message.path == "/stream";
    if (reply.streams)
      reply.answer = std::make_unique<Endless>(*this);
    else
      reply.body.assign(size_t{64} << 20, 'x');
    return reply;
  }
  Reply fault(int status, const std::string&) const override { return {status, "{}"}; }
  bool asks_for_state(const Message&) const override { return false; }

  std::atomic<int64_t> answers = 0, bytes = 0;

 private:
  class Endless final : public Answer {
   public:
    explicit Endless(EndlessSite& site) : site_(site) { ++site_.answers; }
    ~Endless() override { --site_.answers; }
    Piece take() override {
      site_.bytes += 1 << 10;
      return {std::string(1 << 10, 'x')};
    }

   private:
    EndlessSite& site_;
  };
};

// A client that takes nothing costs no more than the buffers of its connection, and not for long.
TEST(SlowReaderTest, IsCutAfterAWhile) {
  EndlessSite site;
  const Server server(site, {.port = 0, .write_s = 1});
  HttpClient streams(server.port(), 2048), whole(server.port(), 2048), reads(server.port());
  streams.send("GET", "/stream", "");
  whole.send("GET", "/whole", "");
  reads.send("GET", "/stream", "");
  const auto await = [](const auto& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!condition() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(condition());
  };
  await([&] { return site.answers == 2; });
  await([&] {
    reads.skim();
    return server.connections() == 1;
  });
  EXPECT_EQ(site.answers, 1);  // the client that reads has it
  const int64_t before = site.bytes;
  await([&] {
    reads.skim();
    return site.bytes > before + (1 << 20);
  });
  EXPECT_EQ(server.connections(), 1);
}

// The server keeps a fraction of a megabyte for a client that takes nothing.
TEST(SlowReaderTest, IsBufferedToABound) {
  EndlessSite site;
  const Server server(site, {.port = 0, .write_s = 60});
  HttpClient streams(server.port(), 2048);
  streams.send("GET", "/stream", "");
  for (int64_t before = -1; site.bytes != before;
       std::this_thread::sleep_for(std::chrono::milliseconds(100)))
    before = site.bytes;
  EXPECT_GT(site.bytes, 0);
  EXPECT_LT(site.bytes, 1 << 20);
}

// Answers with one piece, which takes until it is let go.
class BusySite final : public Site {
 public:
  std::optional<Reply> refuse(const Message&) const override { return std::nullopt; }
  Reply reply(const Message&, std::function<void()>) override {
    Reply reply;
    reply.streams = true;
    reply.answer = std::make_unique<Busy>(*this);
    return reply;
  }
  Reply fault(int status, const std::string&) const override { return {status, "{}"}; }
  bool asks_for_state(const Message&) const override { return false; }

  std::atomic<bool> is_taken = false, is_let_go = false;
  std::thread::id ended_on;

 private:
  class Busy final : public Answer {
   public:
    explicit Busy(BusySite& site) : site_(site) {}
    ~Busy() override { site_.ended_on = std::this_thread::get_id(); }
    Piece take() override {
      site_.is_taken = true;
      site_.is_let_go.wait(false);
      return {"some"};
    }

   private:
    BusySite& site_;
  };
};

// A connection that is at work when its server ends closes first, on a thread of the server.
TEST(EndOfServerTest, WaitsForAConnectionThatIsAtWork) {
  BusySite site;
  auto server = std::make_unique<Server>(site, ServerOptions{.port = 0});
  HttpClient client(server->port());
  client.send("GET", "/stream", "");
  while (!site.is_taken) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::thread ends([&] {
    server.reset();
    EXPECT_NE(site.ended_on, std::thread::id());
    EXPECT_NE(site.ended_on, std::this_thread::get_id());
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // it waits meanwhile
  site.is_let_go = true;
  site.is_let_go.notify_all();
  ends.join();
}

TEST(ServerAddressTest, IsTheGivenOne) {
  EndlessSite site;
  const Server server(site, {.host = "127.0.0.2", .port = 0});
  EXPECT_FALSE(HttpClient(server.port()).is_open());  // 127.0.0.1
  EXPECT_THROW(Server(site, {.host = "127.0.0.2", .port = server.port()}), Error);
}

TEST(ServerOptionsTest, AreChecked) {
  for (const ServerOptions& wrong :
       {ServerOptions{.host = "nowhere.example"}, ServerOptions{.port = -1},
        ServerOptions{.port = 65536}, ServerOptions{.threads = 0}, ServerOptions{.connections = 0},
        ServerOptions{.client_connections = 0}})
    EXPECT_THROW(validate(wrong), Error);
}

}  // namespace
}  // namespace ridge::http
