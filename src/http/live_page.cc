// SPDX-License-Identifier: Apache-2.0
// The page's headers, and what it must know before it asks: a request that is refused would be an
// error in the browser's console.
#include "http/live_page.h"

#include <string>

#include "base/error.h"

namespace ridge::http {
namespace {

// Scripts and styles from this server alone, requests to it alone, and no frame around it.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data: "
    "blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

Reply asset(std::string text, const char* type) {
  Reply reply{200, std::move(text), type};
  reply.headers = {{"Content-Security-Policy", kPolicy},
                   {"X-Content-Type-Options", "nosniff"},
                   {"Referrer-Policy", "no-referrer"},
                   {"Cache-Control", "no-cache"}};
  return reply;
}

void fill(std::string& text, std::string_view mark, std::string_view value) {
  const size_t at = text.find(mark);
  RIDGE_CHECK(at != std::string::npos, "the page has no {}", mark);
  text.replace(at, mark.size(), value);
}

}  // namespace

Reply live_page(bool wants_key, bool is_loading) {
  std::string text(kLivePage);
  fill(text, "@RIDGE_KEY@", wants_key ? "wanted" : "none");
  fill(text, "@RIDGE_STATE@", is_loading ? "loading" : "ready");
  return asset(std::move(text), "text/html; charset=utf-8");
}

Reply live_style() { return asset(std::string(kLiveStyle), "text/css; charset=utf-8"); }
Reply live_script() { return asset(std::string(kLiveScript), "text/javascript; charset=utf-8"); }

}  // namespace ridge::http
