// SPDX-License-Identifier: Apache-2.0
// A small model behind the API, for tests with and without sockets.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "http/api.h"
#include "serve/answer_reader.h"
#include "serve/bytes_tokenizer.h"
#include "serve/generator.h"
#include "serve/real_model.h"

namespace ridge::http {

using nlohmann::json;

inline constexpr int64_t kCapacity = 192;
inline constexpr const char* kKey = "sk-12345678";

class ServedModelTest : public testing::Test {
 protected:
  // The tokenizer has no token for the last `without_token` ids of the model.
  explicit ServedModelTest(ApiKeys keys = {},
                           int64_t slots = 2,
                           int64_t queue = 4,
                           int64_t without_token = 0,
                           const std::string& name = "small")
      : file_(models::ModelFile::open(serve::data_folder() + "llama_fp32")),
        tokenizer_(serve::bytes_tokenizer(file_.config().vocabulary - without_token)),
        session_(file_, options(slots), serve::cpu_backend()),
        engine_(session_, tokenizer_, {.queue = queue}),
        model_{name, engine_, serve::ChatFormat{text::ChatTemplate::named("chatml"), ""}},
        api_("ridge test", std::move(keys)) {}

  static serve::SessionOptions options(int64_t slots) {
    serve::SessionOptions options = serve::at_level("compiled", kCapacity);
    options.slots = slots;
    options.prefix_caching = true;
    return options;
  }

  // The greedy continuation that `generate` makes of the prompt's ids.
  serve::Generation alone(const std::vector<int32_t>& prompt, int64_t max_tokens) {
    serve::Session session(file_, options(1), serve::cpu_backend());
    serve::GenerateOptions limited;
    limited.max_tokens = max_tokens;
    return serve::generate(session, tokenizer_, prompt, limited, {});
  }
  std::vector<int32_t> chat_ids(const std::string& message) const {
    return tokenizer_.encode("<|im_start|>user\n" + message + "<|im_end|>\n<|im_start|>assistant\n",
                             {.parse_special = true});
  }
  void await(const std::function<bool()>& condition) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!condition() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(condition());
  }

  models::ModelFile file_;
  text::Tokenizer tokenizer_;
  serve::Session session_;
  serve::Engine engine_;
  ServedModel model_;
  Api api_;
};

// The data of the events of a stream.
inline std::vector<std::string> events(std::string_view body) {
  std::vector<std::string> all;
  while (!body.empty()) {
    EXPECT_TRUE(body.starts_with("data: ")) << body;
    const size_t end = body.find("\n\n");
    if (end == std::string_view::npos) {
      ADD_FAILURE() << "an event without an end: " << body;
      break;
    }
    all.emplace_back(body.substr(6, end - 6));
    body.remove_prefix(end + 2);
  }
  return all;
}

}  // namespace ridge::http
