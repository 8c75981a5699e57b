// SPDX-License-Identifier: Apache-2.0
// Writes errors in OpenAI's shape.
#include "http/api_error.h"

#include <nlohmann/json.hpp>

#include "http/json_text.h"

namespace ridge::http {
namespace {

const char* type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 500:
      return "server_error";
    case 503:
      return "service_unavailable_error";
    default:
      return "invalid_request_error";
  }
}

nlohmann::ordered_json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
}

}  // namespace

std::string error_json(const ApiError& error) {
  return json_text({{"error",
                     {{"message", error.what()},
                      {"type", type_of(error.status)},
                      {"param", text_or_null(error.param)},
                      {"code", text_or_null(error.code)}}}});
}

Reply error_reply(const ApiError& error) {
  Reply reply{error.status, error_json(error)};
  constexpr const char* kRetrySeconds = "1";
  if (error.status == 429 || error.status == 503)
    reply.headers.emplace_back("Retry-After", kRetrySeconds);
  if (error.status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

}  // namespace ridge::http
