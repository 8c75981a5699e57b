// SPDX-License-Identifier: Apache-2.0
// Keys and tenants before the API.
#include "files/scratch.h"
#include "http/api_requests.h"

namespace ridge::http {
namespace {

class KeysTest : public ApiTest {
 protected:
  KeysTest() : ApiTest(ApiKeys({"sk-other-key", kKey})) {}
};

TEST_F(KeysTest, AreAskedForEverywhereButHealth) {
  for (const char* path : {"/v1/models", "/metrics", "/version", "/nothing"}) {
    for (const std::string& wrong :
         {std::string(), std::string("Bearer "), std::string(kKey),
          std::string("Bearer sk-1234567"), std::string("Bearer sk-12345678") + "9"}) {
      authorization_ = wrong;
      expect_error(ask("GET", path, ""), 401);
    }
  }
  EXPECT_EQ(ask("GET", "/health", "").status, 200);
  authorization_ = std::string("Bearer ") + kKey;
  EXPECT_EQ(ask("GET", "/v1/models", "").status, 200);
  EXPECT_EQ(ask("GET", "/nothing", "").status, 404);
}

// A key file as `--api-key-file` reads it.
ApiKeys tenants_keys() {
  const files::ScratchFolder folder;
  files::write_plain(folder / "keys",
                     "sk-of-red-1 red\nsk-of-red-2 red\nsk-of-blue blue\nsk-of-none\n");
  return ApiKeys::read(folder / "keys");
}

class TenantsTest : public ApiTest {
 protected:
  TenantsTest() : ApiTest(tenants_keys()) {}

  int64_t cached_of(const std::string& key,
                    const json& body,
                    const char* path = "/v1/completions") {
    authorization_ = "Bearer " + key;
    return post(path, body).at("usage").at("prompt_tokens_details").at("cached_tokens");
  }
};

TEST_F(TenantsTest, ShareNoPrefixes) {
  const json body{{"prompt", std::vector<int>(40, 70)}, {"max_tokens", 1}};
  EXPECT_EQ(cached_of("sk-of-red-1", body), 0);
  EXPECT_EQ(cached_of("sk-of-blue", body), 0);
  EXPECT_EQ(cached_of("sk-of-none", body), 0);
  for (const char* key : {"sk-of-red-1", "sk-of-red-2", "sk-of-blue", "sk-of-none"})
    EXPECT_EQ(cached_of(key, body), 32) << key;
  const std::string text(40, 'x');
  const json chat{{"messages", {{{"role", "user"}, {"content", text}}}}, {"max_tokens", 1}};
  const int64_t whole =
      (std::ssize(chat_ids(text)) - 1) / models::kBlockTokens * models::kBlockTokens;
  EXPECT_EQ(cached_of("sk-of-red-2", chat, "/v1/chat/completions"), 0);
  EXPECT_EQ(cached_of("sk-of-blue", chat, "/v1/chat/completions"), 0);
  EXPECT_EQ(cached_of("sk-of-red-1", chat, "/v1/chat/completions"), whole);
}

}  // namespace
}  // namespace ridge::http
