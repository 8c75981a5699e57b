// SPDX-License-Identifier: Apache-2.0
// The models that tests hold Ridge against: small ones that lie beside the tests, and published
// ones where this machine has them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "files/json.h"
#include "models/model_file.h"
#include "serve/session.h"

namespace ridge::serve {

// A bundle's tests are told where their data lies.
inline std::string data_folder() {
  const char* folder = std::getenv("RIDGE_TEST_DATA");
  return std::string(folder != nullptr ? folder : RIDGE_TEST_DATA) + "/models/";
}

// ${RIDGE_MODELS:-$HOME/.cache/ridge/models}/NAME; empty where it is not.
inline std::string published_model(const std::string& name) {
  const char* folder = std::getenv("RIDGE_MODELS");
  const char* home = std::getenv("HOME");
  std::filesystem::path path =
      folder != nullptr
          ? std::filesystem::path(folder)
          : std::filesystem::path(home != nullptr ? home : "") / ".cache/ridge/models";
  return std::filesystem::exists(path / name) ? (path / name).string() : "";
}

inline backends::Backend& cpu_backend() {
  static std::unique_ptr<backends::Backend> instance = backends::cpu::make_cpu_backend({});
  return *instance;
}

inline SessionOptions at_level(const std::string& level, int64_t capacity) {
  SessionOptions options;
  options.capacity = capacity;
  options.selection = passes::Selection(level, "-tune_gemm");
  return options;
}

inline std::vector<int32_t> ids_of(const nlohmann::json& json) {
  return json.get<std::vector<int32_t>>();
}

// The tokens that follow the prompt, most likely first.
inline std::vector<int32_t> greedy(Session& session, std::span<const int32_t> ids, size_t count) {
  Prompt prompt{0, ids, {}};
  std::vector<int32_t> tokens = session.start({&prompt, 1});
  int64_t slot = 0;
  while (tokens.size() < count) {
    tokens.push_back(tokens.back());
    session.step({&slot, 1}, {&tokens.back(), 1});
  }
  return tokens;
}

// The logits after the prompt.
inline std::vector<float> last_logits(Session& session, std::span<const int32_t> ids) {
  Prompt prompt{0, ids, {}};
  session.start({&prompt, 1});
  return session.logits(0);
}

inline double log_sum_exp(const std::vector<float>& logits) {
  double top = *std::max_element(logits.begin(), logits.end()), sum = 0;
  for (float each : logits) sum += std::exp(static_cast<double>(each) - top);
  return top + std::log(sum);
}

inline double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return a.size() == b.size() ? most : HUGE_VAL;
}

}  // namespace ridge::serve
