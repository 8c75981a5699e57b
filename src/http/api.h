// SPDX-License-Identifier: Apache-2.0
// The routes of a server: OpenAI's API, health, metrics. Knows no sockets.
#pragma once

#include <atomic>
#include <string>

#include "http/allowed_hosts.h"
#include "http/api_keys.h"
#include "http/exchange.h"
#include "http/served_model.h"

namespace ridge::http {

class Api : public Site {
 public:
  // Until `open`, the model counts as loading.
  Api(std::string version, ApiKeys keys, AllowedHosts hosts = {}, bool has_page = true)
      : version_(std::move(version)),
        keys_(std::move(keys)),
        hosts_(std::move(hosts)),
        has_page_(has_page) {}

  // From now on requests are answered by this model, which must outlive all replies.
  void open(const ServedModel& model) { model_ = &model; }
  // From now on health says that no new requests are welcome. The engine refuses them.
  void drain() { drains_ = true; }

  std::optional<Reply> refuse(const Message& head) const override;
  Reply reply(const Message& message, std::function<void()> wake) override;
  Reply fault(int status, const std::string& message) const override;
  bool asks_for_state(const Message& head) const override;

 private:
  struct Route;
  static const Route kRoutes[];

  const ServedModel& model() const;                  // throws an ApiError 503 while it is loading
  const Route* find(const std::string& path) const;  // null if there is none
  Reply page(const Message& message, std::function<void()>& wake) const;
  Reply page_style(const Message& message, std::function<void()>& wake) const;
  Reply page_script(const Message& message, std::function<void()>& wake) const;
  Reply health(const Message& message, std::function<void()>& wake) const;
  Reply ready(const Message& message, std::function<void()>& wake) const;
  Reply version(const Message& message, std::function<void()>& wake) const;
  Reply metrics(const Message& message, std::function<void()>& wake) const;
  Reply activity(const Message& message, std::function<void()>& wake) const;
  Reply trace(const Message& message, std::function<void()>& wake) const;
  Reply models(const Message& message, std::function<void()>& wake) const;
  uint32_t tenant_of(const Message& message) const;
  Reply chat(const Message& message, std::function<void()>& wake) const;
  Reply completion(const Message& message, std::function<void()>& wake) const;
  Reply tokenize(const Message& message, std::function<void()>& wake) const;
  Reply detokenize(const Message& message, std::function<void()>& wake) const;

  const std::string version_;
  const ApiKeys keys_;
  const AllowedHosts hosts_;
  const bool has_page_;
  std::atomic<const ServedModel*> model_ = nullptr;
  std::atomic<bool> drains_ = false;
};

}  // namespace ridge::http
