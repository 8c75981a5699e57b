// SPDX-License-Identifier: Apache-2.0
// Waits for the engine's pieces, and looks for Ctrl-C meanwhile.
#include "python/answer.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>

#include "base/error.h"

namespace ridge::python {

Answer::Signal::~Signal() {
  if (descriptor >= 0) ::close(descriptor);
}

void Answer::Signal::set() {
  if (descriptor >= 0) return static_cast<void>(::eventfd_write(descriptor, 1));
  const std::lock_guard lock(mutex);
  is_set = true;
  changed.notify_one();
}

void Answer::Signal::clear_descriptor() const {
  eventfd_t count = 0;
  static_cast<void>(::eventfd_read(descriptor, &count));
}

Answer::Answer(std::shared_ptr<Model> model, serve::Request request, bool has_descriptor)
    : model_(std::move(model)),
      signal_(std::make_shared<Signal>()),
      queue_(std::make_shared<serve::OutputQueue>([signal = signal_] { signal->set(); })) {
  if (has_descriptor) {
    signal_->descriptor = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (signal_->descriptor < 0) throw runtime_error("[engine] no file descriptor is left");
  }
  result_.prompt_tokens = std::ssize(request.prompt);
  result_.has_ceilings = model_->has_ceilings();
  handle_ = model_->submit(std::move(request), queue_);
  if (handle_.id == 0) throw runtime_error("[model] expected room in the queue of requests");
}

void Answer::wait() {
  constexpr auto kLook = std::chrono::milliseconds(50);  // the longest that Ctrl-C waits
  std::unique_lock lock(signal_->mutex);
  while (!signal_->changed.wait_for(lock, kLook, [this] { return signal_->is_set; })) {
    lock.unlock();
    throw_if_interrupted();
    lock.lock();
  }
  signal_->is_set = false;
}

// Adds what the engine has put.
std::string Answer::take() {
  serve::Delta delta = queue_->take();
  result_.text += delta.text;
  result_.tokens += delta.tokens;
  result_.ids.insert(result_.ids.end(), delta.ids.begin(), delta.ids.end());
  result_.cached_tokens += delta.cached_tokens;
  for (serve::TokenScores& each : delta.scores) result_.logprobs.push_back(std::move(each));
  if (delta.metrics) result_.metrics = *delta.metrics;
  if (delta.finish != serve::Finish::kNone) {
    has_ended_ = true;
    result_.finish_reason = serve::finish_name(delta.finish);
    if (delta.finish == serve::Finish::kFailed) throw runtime_error("{}", delta.error);
  }
  return std::move(delta.text);
}

std::optional<std::string> Answer::next() {
  while (!has_ended_) {
    try {
      throw_if_interrupted();
      wait();
    } catch (...) {
      cancel();
      throw;
    }
    if (std::string text = take(); !text.empty()) return text;
  }
  return {};
}

std::optional<std::string> Answer::poll() {
  if (has_ended_) return {};
  signal_->clear_descriptor();
  std::string text = take();
  if (text.empty() && has_ended_) return {};
  return text;
}

void Answer::cancel() {
  if (has_ended_) return;
  has_ended_ = true;
  result_.finish_reason = serve::finish_name(serve::Finish::kCancelled);
  model_->cancel(handle_.id);
}

}  // namespace ridge::python
