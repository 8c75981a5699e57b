// SPDX-License-Identifier: Apache-2.0
// Reads the answer to one request from its output queue.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "serve/engine.h"

namespace ridge::serve {

// Holds the engine's thread after each token of a request until the test lets it pass.
class Gate {
 public:
  // The engine's thread calls `behind` each time that it has passed.
  explicit Gate(std::function<void()> behind = [] {}) : behind_(std::move(behind)) {}

  void pass() {
    {
      std::unique_lock lock(mutex_);
      opened_.wait(lock, [&] { return allowed_ > 0; });
      --allowed_;
    }
    behind_();
  }
  void allow(int64_t passes) {
    const std::lock_guard lock(mutex_);
    allowed_ += passes;
    opened_.notify_one();
  }
  void open() { allow(int64_t{1} << 40); }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  int64_t allowed_ = 0;
  const std::function<void()> behind_;
};

class AnswerReader {
 public:
  AnswerReader(Engine& engine, Request request, std::shared_ptr<Gate> gate = nullptr)
      : output_(std::make_shared<OutputQueue>([signal = signal_, gate] {
          {
            const std::lock_guard lock(signal->mutex);
            signal->is_set = true;
            signal->set.notify_one();
          }
          if (gate != nullptr) gate->pass();
        })),
        handle_(engine.submit(std::move(request), output_)) {}

  const RequestHandle& handle() const { return handle_; }
  // Returns the answer so far, once it has at least so many tokens or is finished.
  const Delta& await(int64_t tokens) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (all_.tokens < tokens && all_.finish == Finish::kNone) {
      {
        std::unique_lock lock(signal_->mutex);
        if (!signal_->set.wait_until(lock, end, [&] { return signal_->is_set; })) {
          ADD_FAILURE() << "the engine is silent after " << all_.tokens << " tokens";
          return all_;
        }
        signal_->is_set = false;
      }
      take();
    }
    return all_;
  }
  const Delta& finished() { return await(INT64_MAX); }
  // All that has come so far.
  const Delta& poll() {
    if (all_.finish == Finish::kNone) take();
    return all_;
  }

 private:
  struct Signal {
    std::mutex mutex;
    std::condition_variable set;
    bool is_set = false;
  };
  void take() { all_.append(output_->take()); }

  std::shared_ptr<Signal> signal_ = std::make_shared<Signal>();
  std::shared_ptr<OutputQueue> output_;
  RequestHandle handle_;
  Delta all_;
};

}  // namespace ridge::serve
