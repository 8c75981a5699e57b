// SPDX-License-Identifier: Apache-2.0
// The API of a small model answers each request of tests/golden/http/requests.txt, one after the
// other, as the golden transcript says, and its metrics count them so. Times, and numbers that
// depend on a processor, are left out.
#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>

#include "golden_text.h"
#include "http/api_requests.h"

namespace ridge::http {
namespace {

// Fields whose value another run has too.
void keep_comparable(json& value, const std::string& name = "") {
  static const std::regex of_time("id|created|.*_(ns|us|ms|s|flops|bytes)|.*version");
  if (value.is_structured())
    for (auto& each : value.items())
      keep_comparable(each.value(), value.is_object() ? each.key() : name);
  else if (value.is_number_float())
    value = "a number";
  else if (std::regex_match(name, of_time) && !value.is_null())
    value = value.is_number() ? "a number" : "a text";
}

// The events that have no text, and the texts together: how many tokens an event has depends on
// when they are taken.
std::string joined(const std::vector<std::string>& events) {
  std::string others, text;
  for (const std::string& each : events) {
    json data = each == "[DONE]" ? json::object() : json::parse(each);
    const json choice = data.value("/choices/0"_json_pointer, json::object());
    const std::string part = choice.contains("text")
                                 ? choice["text"].get<std::string>()
                                 : choice.value("/delta/content"_json_pointer, std::string());
    text += part;
    keep_comparable(data);
    if (part.empty()) others += data.dump() + "\n";
  }
  return others + json(text).dump() + "\n";
}

std::string comparable(const Reply& reply) {
  if (reply.content_type.starts_with("application/json")) {
    json body = json::parse(reply.body);
    keep_comparable(body);
    return body.dump(1) + "\n";
  }
  return reply.content_type == "text/event-stream" ? joined(events(reply.body)) : "";
}

// Counters of what was asked for and computed, not of how long it took.
std::string counters_of(const std::string& metrics) {
  static const std::regex other("seconds|ratio|_ns|process_|_bytes|_flops|per_s|info|engine_steps");
  std::istringstream lines(metrics);
  std::string text;
  for (std::string line; std::getline(lines, line);)
    if (!std::regex_search(line.substr(0, line.find('{')), other)) text += line + "\n";
  return text;
}

TEST_F(ApiTest, AnswersAsItsTranscriptSays) {
  std::ifstream requests(source_file("tests/golden/http/requests.txt"));
  std::string text;
  int count = 0;
  for (std::string line; std::getline(requests, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string method, path, body;
    words >> method >> path;
    std::getline(words >> std::ws, body);
    const Reply reply = ask(method, path, body);
    text += line + "\n" + std::to_string(reply.status) + " " + reply.content_type + "\n" +
            comparable(reply) + "\n";
    ++count;
  }
  EXPECT_GT(count, 50);
  expect_golden("http/transcript.txt", text + counters_of(ask("GET", "/metrics", "").body));
}

}  // namespace
}  // namespace ridge::http
