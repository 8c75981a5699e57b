// SPDX-License-Identifier: Apache-2.0
// The load generator against a small model behind a real server, and its figures against values
// counted by hand.
#include "http/load.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "http/client.h"
#include "http/event_lines.h"
#include "http/load_summary.h"
#include "http/served_model_test.h"
#include "http/server.h"

namespace ridge::http {
namespace {

class LoadTest : public ServedModelTest {
 protected:
  LoadTest() : ServedModelTest(ApiKeys({kKey}), 2, 64), server_(api_, {.port = 0}) {
    api_.open(model_);
  }
  Url url() const { return {"127.0.0.1", std::to_string(server_.port()), ""}; }
  static LoadOptions load() {
    LoadOptions options;
    options.api_key = kKey;
    options.prompt = {Lengths::Law::kFixed, 6, 6};
    options.output = {Lengths::Law::kUniform, 3, 9};
    options.silence_s = 60;
    return options;
  }
  Server server_;
};

void expect_whole(const LoadResult& result, int64_t requests) {
  EXPECT_EQ(std::ssize(result.requests), requests);
  for (const RequestTimes& each : result.requests) {
    EXPECT_EQ(each.error, "");
    EXPECT_GE(each.output_tokens, 3);
    EXPECT_LE(each.output_tokens, 9);
    EXPECT_GT(each.prompt_tokens, 6);  // a token a byte
    ASSERT_FALSE(each.arrivals_ns.empty());
    EXPECT_TRUE(std::ranges::is_sorted(each.arrivals_ns));
    EXPECT_LE(each.due_ns, each.arrivals_ns.front());
    EXPECT_LE(each.arrivals_ns.back(), each.end_ns);
    EXPECT_LE(each.end_ns, result.wall_ns);
  }
}

TEST_F(LoadTest, SendsAClosedLoop) {
  LoadOptions options = load();
  options.clients = 3;
  options.requests = 10;
  int64_t ticks = 0;
  const LoadResult result = run_load(url(), options, [&] { ++ticks; });
  EXPECT_EQ(result.model, "small");
  EXPECT_EQ(ticks, 10);
  expect_whole(result, 10);
  EXPECT_EQ(engine_.counts().queue.count, 11);  // and the one before the load
  // Never more at once than clients.
  for (const RequestTimes& each : result.requests) {
    const int64_t overlapping =
        std::ranges::count_if(result.requests, [&](const RequestTimes& other) {
          return other.due_ns <= each.due_ns && each.due_ns < other.end_ns;
        });
    EXPECT_LE(overlapping, 3);
  }
}

TEST_F(LoadTest, SendsAnOpenLoop) {
  LoadOptions options = load();
  options.rate = 200;
  options.requests = 20;
  expect_whole(run_load(url(), options, {}), 20);
  options.rate = 1000;
  options.requests = 0;
  options.seconds = 0.02;
  for (const RequestTimes& each : run_load(url(), options, {}).requests)
    EXPECT_LT(each.due_ns, 0.02e9);
  options.rate = 0.01;  // the first one comes at once, so that there is one
  expect_whole(run_load(url(), options, {}), 1);
}

TEST_F(LoadTest, CountsFailures) {
  LoadOptions options = load();
  options.requests = 4;
  options.prompt = {Lengths::Law::kUniform, 1, 60};  // some of 192 bytes and more
  options.seed = 3;
  const LoadResult result = run_load(url(), options, {});
  const record::LoadSummary sum = summarize_load(result, {});
  EXPECT_EQ(sum.completed + sum.failed, 4);
  for (const auto& [error, count] : sum.errors) EXPECT_TRUE(error.starts_with("400 ")) << error;
  options.api_key = "sk-wrong-key";
  EXPECT_THROW(run_load(url(), options, {}), Error);
  options.model = "other";
  EXPECT_THROW(run_load(url(), options, {}), Error);
}

TEST_F(LoadTest, NobodyThereIsAnError) {
  LoadOptions options = load();
  options.requests = 1;
  options.silence_s = 5;
  EXPECT_THROW(run_load({"127.0.0.1", "1", ""}, options, {}), Error);
}

TEST_F(LoadTest, AClientKeepsItsConnection) {
  Client client(url(), 60);
  const auto status = [&] {
    return client.send(
        {"GET", "/v1/models", "", {{"Authorization", std::string("Bearer ") + kKey}}},
        [](std::string_view) {});
  };
  EXPECT_EQ(status(), 200);
  EXPECT_EQ(status(), 200);
  EXPECT_EQ(server_.connections(), 1);  // the same
}

TEST(Url, IsParsed) {
  const Url plain = Url::parse("http://localhost:8080/"), six = Url::parse("http://[::1]:9/a/b/"),
            bare = Url::parse("http://host");
  EXPECT_EQ(plain.host + "|" + plain.port + "|" + plain.path, "localhost|8080|");
  EXPECT_EQ(six.host + "|" + six.port + "|" + six.path, "::1|9|/a/b");
  EXPECT_EQ(bare.host + "|" + bare.port, "host|80");
  for (const char* wrong : {"", "localhost:8080", "https://a", "http://", "http://a:", "http://a:x",
                            "http://[::1", "http://a b", "http://a/\r\nX: y", "http://a:123456"})
    EXPECT_THROW(Url::parse(wrong), Error) << wrong;
}

// A server that gives the first request one reply and all others another one, and closes.
class FixedReplies {
 public:
  FixedReplies(std::string first, std::string next)
      : first_(std::move(first)), next_(std::move(next)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 8), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~FixedReplies() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  Url url() const { return {"127.0.0.1", std::to_string(port_), ""}; }

 private:
  void serve() const {
    const std::string* reply = &first_;
    for (int client = 0; (client = ::accept(listener_, nullptr, nullptr)) >= 0;) {
      std::string request;
      char bytes[4096];
      // The body is one JSON object.
      while (request.find("\r\n\r\n") == std::string::npos || request.back() != '}')
        if (const ssize_t count = ::recv(client, bytes, sizeof bytes, 0); count > 0)
          request.append(bytes, static_cast<size_t>(count));
        else
          break;
      ::send(client, reply->data(), reply->size(), MSG_NOSIGNAL);
      reply = &next_;
      ::close(client);
    }
  }

  const std::string first_, next_;
  const int listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
  uint16_t port_ = 0;
  std::thread thread_;
};

constexpr const char* kPiece = "data: {\"choices\": [{\"text\": \"ab\"}]}\n\n";
constexpr const char* kEnd = "data: [DONE]\n\n";

std::string reply_of(const std::string& status, const std::string& body) {
  return "HTTP/1.1 " + status +
         "\r\nContent-Type: text/event-stream\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\nConnection: close\r\n\r\n" + body;
}

// The times of a request with such a reply, after a first request that goes well.
RequestTimes times_of_reply(const std::string& status, const std::string& body) {
  const FixedReplies server(reply_of("200 OK", std::string(kPiece) + kEnd), reply_of(status, body));
  LoadOptions options;
  options.model = "m";
  options.requests = 1;
  options.prompt = options.output = {Lengths::Law::kFixed, 2, 2};
  options.silence_s = 10;
  return run_load(server.url(), options, {}).requests.at(0);
}

TEST(LoadReplies, ThatEndTooSoonOrFailAreErrors) {
  const std::string piece = kPiece, end = kEnd,
                    usage =
                        "data: {\"usage\": {\"prompt_tokens\": 7, \"completion_tokens\": 5}}\n\n",
                    fault = "data: {\"error\": {\"message\": \"lost\"}}\n\n";
  const RequestTimes whole = times_of_reply("200 OK", piece + piece + usage + end);
  EXPECT_EQ(whole.error, "");
  EXPECT_EQ(whole.arrivals_ns.size(), 2u);
  EXPECT_EQ(whole.prompt_tokens, 7);
  EXPECT_EQ(whole.output_tokens, 5);
  const RequestTimes counted = times_of_reply("200 OK", piece + piece + piece + end);
  EXPECT_EQ(counted.error, "");
  EXPECT_EQ(counted.output_tokens, 3) << "a token a piece, without usage";
  EXPECT_EQ(times_of_reply("200 OK", piece + usage).error, "a stream without its end");
  EXPECT_EQ(times_of_reply("200 OK", usage + end).error, "an answer without text");
  EXPECT_NE(times_of_reply("200 OK", piece + fault + end).error.find("lost"), std::string::npos);
  const RequestTimes refused =
      times_of_reply("429 Too Many Requests", "{\"error\": {\"message\": \"later\"}}");
  EXPECT_NE(refused.error.find("429"), std::string::npos) << refused.error;
  EXPECT_NE(refused.error.find("later"), std::string::npos) << refused.error;
}

TEST(LoadReplies, SayWhatTheServerSays) {
  const auto error = [](const std::string& status, const std::string& body) {
    return times_of_reply(status, body).error;
  };
  EXPECT_EQ(error("429 Too Many Requests", "{\"error\": {\"message\": \"later\"}}"),
            "429 \"later\"");
  EXPECT_EQ(error("500 Fault", "plain text"), "500 \"plain text\"");
  for (const char* other : {"{\"error\": {\"message\": 7}}", "{\"error\": 7}", "[1]"})
    EXPECT_EQ(error("500 Fault", other).substr(0, 4), "500 ");
  EXPECT_EQ(error("200 OK", std::string(kPiece) + "data: {\"error\": {\"message\": \"lost\"}}\n\n"),
            "200 \"lost\"")
      << "what it said comes before its early end";
}

TEST(LoadReplies, AreReadPastWhatIsNoAnswer) {
  const RequestTimes times = times_of_reply(
      "200 OK",
      "data: no JSON\n\ndata: 7\n\ndata: {\"choices\": 7}\n\ndata: {\"choices\": []}\n\n"
      "data: {\"choices\": [{\"text\": \"\"}]}\n\ndata: {\"choices\": [{\"text\": 7}]}\n\n"
      "data: {\"usage\": 7}\n\n"
      "data: {\"usage\": {\"prompt_tokens\": \"7\", \"completion_tokens\": 1.5}}\n\n" +
          std::string(kPiece) + kEnd);
  EXPECT_EQ(times.error, "");
  EXPECT_EQ(times.arrivals_ns.size(), 1u);
  EXPECT_EQ(times.prompt_tokens, 0);
  EXPECT_EQ(times.output_tokens, 1);
}

TEST(Lengths, AreDrawnByTheirLaw) {
  Random random(5);
  EXPECT_EQ(Lengths::parse("128", "tokens").draw(random), 128);
  const auto mean = [&](const Lengths& lengths) {
    double sum = 0;
    for (int i = 0; i < 20'000; ++i) {
      const int64_t each = lengths.draw(random);
      EXPECT_GE(each, 1);
      EXPECT_LE(each, lengths.high);
      sum += static_cast<double>(each);
    }
    return sum / 20'000;
  };
  EXPECT_NEAR(mean(Lengths::parse("10-30", "tokens")), 20, 0.3);
  EXPECT_NEAR(mean(Lengths::parse("exp:100", "tokens")), 100, 4);
  for (const char* wrong : {"", "0", "-1", "5-", "9-5", "9-8", "exp:", "exp:0", "1e3", "99999999",
                            "1-2-3", "-5", "1048577", "00000001", "18446744073709551617"})
    EXPECT_THROW(Lengths::parse(wrong, "tokens"), Error) << wrong;
  EXPECT_EQ(Lengths::parse("1048576", "tokens").high, 1 << 20);
  EXPECT_EQ(Lengths::parse("exp:1048576", "tokens").high, 1 << 20);
  EXPECT_EQ(Lengths::parse("exp:3", "tokens").high, 24);
}

TEST(LoadOptions, HaveBounds) {
  LoadOptions good;
  good.requests = 1;
  good.prompt = good.output = {Lengths::Law::kFixed, 5, 5};
  const auto takes = [&](auto LoadOptions::*field, auto value) {
    LoadOptions options = good;
    options.*field = value;
    try {
      validate(options);
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(ExitCode::kUsage));
      return false;
    }
  };
  const auto expect = [&](auto LoadOptions::*field, auto least, auto most, auto step) {
    EXPECT_TRUE(takes(field, least) && takes(field, most)) << least;
    EXPECT_FALSE(takes(field, least - step) || takes(field, most + step)) << least;
  };
  expect(&LoadOptions::clients, 1, 1024, 1);
  expect(&LoadOptions::shared_prefix, 0, 5, 1);
  expect(&LoadOptions::temperature, 0.0, 2.0, 1e-9);
  expect(&LoadOptions::silence_s, 1.0, 1e6, 1e-6);
  expect(&LoadOptions::rate, 1e-3, 1e4, 1e-6);
  EXPECT_TRUE(takes(&LoadOptions::requests, 10'000'000));
  EXPECT_FALSE(takes(&LoadOptions::requests, 10'000'001));
  EXPECT_FALSE(takes(&LoadOptions::requests, 0)) << "without seconds the load never ends";
  good.seconds = 1;
  EXPECT_TRUE(takes(&LoadOptions::requests, 0));
  EXPECT_FALSE(takes(&LoadOptions::seconds, -1.0));
}

TEST(MakePrompt, SharesItsBeginning) {
  const std::string a = make_prompt(20, 8, 1), b = make_prompt(20, 8, 2);
  EXPECT_NE(a, b);
  EXPECT_EQ(std::ranges::count(a, ' '), 19);
  EXPECT_EQ(make_prompt(8, 8, 9), a.substr(0, make_prompt(8, 8, 1).size()));
  EXPECT_TRUE(b.starts_with(make_prompt(8, 8, 1) + " "));
  EXPECT_EQ(make_prompt(20, 8, 1), a);
}

TEST(LoadSummary, CountsByHand) {
  LoadResult result;
  result.wall_ns = 2e9;
  result.requests.push_back({.due_ns = 0,
                             .end_ns = 420e6,
                             .arrivals_ns = {100e6, 200e6, 400e6},
                             .prompt_tokens = 5,
                             .output_tokens = 4});
  result.requests.push_back(
      {.due_ns = 100e6, .end_ns = 700e6, .arrivals_ns = {600e6}, .output_tokens = 1});
  result.requests.push_back({.end_ns = 5, .error = "429 full"});
  const record::LoadSummary sum = summarize_load(result, Promise::parse("ttft=0.4s,tpot=100ms"));
  EXPECT_EQ(sum.completed, 2);
  EXPECT_EQ(sum.failed, 1);
  EXPECT_EQ(sum.errors.at("429 full"), 1);
  EXPECT_EQ(sum.output_tokens, 5);
  EXPECT_DOUBLE_EQ(sum.per_s(sum.output_tokens), 2.5);
  EXPECT_DOUBLE_EQ(sum.ttft.mean, 300e6);
  EXPECT_DOUBLE_EQ(sum.ttft.p50, 100e6);
  EXPECT_DOUBLE_EQ(sum.ttft.p99, 500e6);
  EXPECT_EQ(sum.tpot.count, 1);
  EXPECT_DOUBLE_EQ(sum.tpot.mean, 100e6);  // 300 ms for 3 tokens
  EXPECT_DOUBLE_EQ(sum.itl.p90, 200e6);
  EXPECT_DOUBLE_EQ(sum.e2e.p50, 420e6);
  EXPECT_EQ(sum.kept, 1);
  EXPECT_EQ(summarize_load(result, {}).kept, 2);
  EXPECT_EQ(summarize_load(result, Promise::parse("tpot=99.9ms")).kept, 1);
  EXPECT_EQ(summarize_load(result, Promise::parse("e2e=0.5s")).kept, 1);
  for (const char* wrong :
       {"ttft", "ttft=5", "ttft=-1ms", "x=1ms", "ttft=1ms,ttft=2ms", "ttft=nanms", ","})
    EXPECT_THROW(Promise::parse(wrong), Error) << wrong;
}

TEST(Percentiles, AreByNearestRank) {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  const record::Percentiles p = percentiles(values);
  EXPECT_EQ(p.p50, 50);
  EXPECT_EQ(p.p90, 90);
  EXPECT_EQ(p.p99, 99);
  EXPECT_EQ(p.mean, 50.5);
  EXPECT_EQ(percentiles({}).count, 0);
}

TEST(EventLines, ComeInAnyPieces) {
  const std::string stream =
      ": comment\r\ndata: {\"a\": 1}\r\n\r\nevent: x\ndata:b\n\ndata: [DONE]\n\nrest";
  for (size_t piece : {size_t{1}, size_t{3}, stream.size()}) {
    EventLines lines;
    std::vector<std::string> data;
    for (size_t at = 0; at < stream.size(); at += piece)
      lines.push(std::string_view(stream).substr(at, piece),
                 [&](std::string_view each) { data.emplace_back(each); });
    EXPECT_EQ(data, (std::vector<std::string>{"{\"a\": 1}", "b", "[DONE]"}));
  }
}

}  // namespace
}  // namespace ridge::http
