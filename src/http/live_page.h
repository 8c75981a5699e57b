// SPDX-License-Identifier: Apache-2.0
// The page at "/": a chat, and the engine at work. It asks this server and nobody else.
#pragma once

#include <string_view>

#include "http/exchange.h"

namespace ridge::http {

// Made at build time from src/http/page.
extern const std::string_view kLivePage, kLiveStyle, kLiveScript;

// The page for a server that wants a key or does not, and whose model is there or still loads.
Reply live_page(bool wants_key, bool is_loading);
Reply live_style();
Reply live_script();

}  // namespace ridge::http
