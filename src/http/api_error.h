// SPDX-License-Identifier: Apache-2.0
// Errors of requests, and the JSON in which OpenAI's clients expect them.
#pragma once

#include <stdexcept>
#include <string>

#include "http/exchange.h"

namespace ridge::http {

// The request's fault, or why it cannot be served now.
class ApiError : public std::runtime_error {
 public:
  ApiError(int of_status,
           const std::string& message,
           std::string of_param = "",
           std::string of_code = "")
      : std::runtime_error(message),
        status(of_status),
        param(std::move(of_param)),
        code(std::move(of_code)) {}

  const int status;
  const std::string param;  // the field at fault; empty: none
  const std::string code;   // for programs, as "model_not_found"; empty: none
};

// {"error": {"message", "type", "param", "code"}}. The type follows from the status.
std::string error_json(const ApiError& error);
// With Retry-After where trying again may help (429, 503).
Reply error_reply(const ApiError& error);

}  // namespace ridge::http
