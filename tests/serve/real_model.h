// SPDX-License-Identifier: Apache-2.0
// Models for comparisons with other implementations: small ones in the tests' data, and published
// ones if this machine has them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "files/json.h"
#include "files/scratch.h"
#include "models/model_file.h"
#include "serve/session.h"

namespace ridge::serve {

inline std::string data_folder() { return test_data("models/").string(); }

// ${RIDGE_MODELS:-$HOME/.cache/ridge/models}/NAME; empty if it does not exist.
inline std::string published_model(const std::string& name) {
  const std::filesystem::path path = files::fetched_model(name);
  return std::filesystem::exists(path) ? path.string() : "";
}

// Tolerances for published models in fp32: sums of a thousand products, in another order, through
// tens of layers.
inline constexpr double kLogits = 2e-3;
inline constexpr double kLikelihood = 1e-3;
// If the two largest logits are closer than this, either may come first.
inline constexpr double kTie = 0.02;

struct Published {
  const char* name;
  const char* file;
  const char* expectations;
  // For logits with activations rounded to 8 bits through tens of layers, where the order of a sum
  // can change a result by the whole distance. llama.cpp, which rounds too, differs from these
  // logits by up to 0.54 (SmolLM2) and 1.01 (Gemma 3, on the text of 869 tokens, like Ridge).
  double rounded_logits;
};
inline void PrintTo(const Published& p, std::ostream* out) { *out << p.file; }

inline constexpr Published kPublished[] = {
    {"SmolLM2", "SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2_135m_q4_1.json", 0.7},
    {"Gemma3", "gemma-3-270m-q4_k_m.gguf", "gemma3_270m_q4_k_m.json", 1.01}};

// A published model with its expected results; skips if this machine does not have the model.
class PublishedModelTest : public testing::TestWithParam<Published> {
 public:
  static std::string name(const testing::TestParamInfo<Published>& which) {
    return which.param.name;
  }

 protected:
  void SetUp() override {
    std::string path = published_model(GetParam().file);
    if (path.empty())
      GTEST_SKIP() << GetParam().file << " is not on this machine: make models fetches it";
    file_ = std::make_unique<models::ModelFile>(models::ModelFile::open(path));
    expected_ = files::read_json(data_folder() + GetParam().expectations);
  }

  std::unique_ptr<models::ModelFile> file_;
  nlohmann::json expected_;
};

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

// A model, and whether steps of its engine run ahead of their tokens, as on a GPU.
struct EngineCase {
  const char* model;
  bool runs_ahead = false;
  friend void PrintTo(const EngineCase& each, std::ostream* out) {
    *out << each.model << (each.runs_ahead ? ", ahead" : "");
  }
};

}  // namespace ridge::serve
