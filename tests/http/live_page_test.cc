// SPDX-License-Identifier: Apache-2.0
// The page's routes and headers. What it shows is tested in a browser (page_browser_test.py).
#include "http/live_page.h"

#include <regex>

#include "http/http_client.h"
#include "http/served_model_test.h"
#include "http/server.h"

namespace ridge::http {
namespace {

class LivePageTest : public ServedModelTest {
 protected:
  LivePageTest() : ServedModelTest(ApiKeys({kKey})) {}

  static Reply get(Api& api, const std::string& path) {
    return api.reply({"GET", path, "", ""}, [] {});
  }
};

TEST_F(LivePageTest, NeedsNoKeyAndSaysWhetherOneIsWanted) {
  const Reply loading = get(api_, "/");
  EXPECT_EQ(loading.status, 200);
  EXPECT_NE(loading.body.find(R"(data-key="wanted" data-state="loading")"), std::string::npos);
  api_.open(model_);
  EXPECT_NE(get(api_, "/").body.find(R"(data-key="wanted" data-state="ready")"), std::string::npos);
  Api open("ridge test", {});
  open.open(model_);
  EXPECT_NE(get(open, "/").body.find(R"(data-key="none" data-state="ready")"), std::string::npos);
}

TEST_F(LivePageTest, AllowsNothingFromElsewhere) {
  for (const char* path : {"/", "/page.css", "/page.js"}) {
    const Reply reply = get(api_, path);
    EXPECT_EQ(reply.status, 200);
    const std::map<std::string, std::string> headers(reply.headers.begin(), reply.headers.end());
    const std::string policy = headers.at("Content-Security-Policy");
    EXPECT_TRUE(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"));
    EXPECT_EQ(policy.find("unsafe"), std::string::npos);
    EXPECT_EQ(headers.at("X-Content-Type-Options"), "nosniff");
  }
  // The page loads only its own files; foreign text is set as text.
  const std::string page(kLivePage), script(kLiveScript.substr(kLiveScript.find("'use strict';")));
  const std::regex loaded(R"((src|href)="([^"]*)\")");
  for (std::sregex_iterator each(page.begin(), page.end(), loaded), end; each != end; ++each)
    EXPECT_TRUE((*each)[2] == "/page.js" || (*each)[2] == "/page.css" || (*each)[2] == "data:,");
  for (const char* way :
       {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("})
    EXPECT_EQ(script.find(way), std::string::npos) << way;
}

TEST_F(LivePageTest, CanBeOff) {
  Api api("ridge test", {}, {}, false);
  api.open(model_);
  for (const char* path : {"/", "/page.css", "/page.js"}) EXPECT_EQ(get(api, path).status, 404);
  EXPECT_EQ(get(api, "/metrics").status, 200);
}

TEST_F(LivePageTest, PassesTheQueryOn) {
  api_.open(model_);
  const Server server(api_, {.port = 0});
  HttpClient client(server.port());
  const std::string key = std::string("Authorization: Bearer ") + kKey + "\r\n";
  EXPECT_EQ(client.get("/debug/activity?after=x", key).status, 400);
  EXPECT_TRUE(json::parse(client.get("/debug/activity?", key).body).contains("server"));
  EXPECT_FALSE(json::parse(client.get("/debug/activity?after=1&x=?", key).body).contains("server"));
  EXPECT_EQ(client.get("/?after=x").headers.at("content-type"), "text/html; charset=utf-8");
}

}  // namespace
}  // namespace ridge::http
