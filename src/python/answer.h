// SPDX-License-Identifier: Apache-2.0
// An answer that is being generated, and the finished one with its account.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "python/model.h"
#include "serve/request.h"

namespace ridge::python {

struct Result {
  std::string text = {};
  std::string finish_reason = {};
  int64_t prompt_tokens = 0, tokens = 0, cached_tokens = 0;
  std::vector<int32_t> ids = {};
  std::vector<serve::TokenScores> logprobs = {};
  serve::RequestMetrics metrics = {};
  bool has_ceilings = false;

  // Empty where ceilings are unknown.
  std::optional<double> if_known(double value) const {
    return has_ceilings ? std::optional(value) : std::nullopt;
  }
};

class Answer {
 public:
  // Submits the request. With `has_descriptor`, there is a file descriptor that becomes readable
  // with each piece, for event loops.
  Answer(std::shared_ptr<Model> model, serve::Request request, bool has_descriptor = false);
  ~Answer() { cancel(); }
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  // Waits for the next piece of text; empty at the end. Throws nanobind::python_error after Ctrl-C,
  // which ends the answer. The GIL must not be held.
  std::optional<std::string> next();
  // The same without waiting: an empty text if there is no piece yet.
  std::optional<std::string> poll();
  int descriptor() const { return signal_->descriptor; }  // -1: none
  void cancel();
  // It has what was taken so far and is complete after the end.
  const Result& result() const { return result_; }

 private:
  struct Signal {
    Signal() = default;
    Signal(const Signal&) = delete;
    ~Signal();
    void set();
    void clear_descriptor() const;

    int descriptor = -1;
    std::mutex mutex;
    std::condition_variable changed;
    bool is_set = false;
  };
  void wait();
  std::string take();

  std::shared_ptr<Model> model_;
  std::shared_ptr<Signal> signal_;
  std::shared_ptr<serve::OutputQueue> queue_;
  serve::RequestHandle handle_;
  Result result_;
  bool has_ended_ = false;
};

}  // namespace ridge::python
