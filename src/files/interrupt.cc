// SPDX-License-Identifier: Apache-2.0
// Handles signals in a thread, because a signal handler may not take locks, walk folders or print.
//
#include "files/interrupt.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "files/mapped_file.h"
#include "files/unfinished.h"

namespace ridge::files {
namespace {

constexpr int kUnreadable = SIGUSR2;            // from the SIGBUS handler to the thread
std::atomic<const void*> unreadable = nullptr;  // the address whose read failed

enum class Request { kNone, kOpen, kSet };
std::atomic<Request> request = Request::kNone;
std::atomic<const char*> request_notice = "";
std::atomic<bool> request_is_all = false;  // SIGTERM and SIGHUP count as well
std::atomic<int> request_signal = SIGINT;  // the one that set it

std::mutex hearing_mutex;
std::function<void(int, bool)> hearing;

void tell(int signal, bool ends_now) {
  const std::scoped_lock lock(hearing_mutex);
  if (hearing) hearing(signal, ends_now);
}

constexpr int kSave = SIGUSR1;
std::atomic<Request> save_request = Request::kNone;

// Whether a signal is taken as a request.
bool takes_request(int signal) {
  if (signal == kSave && save_request != Request::kNone) {
    save_request = Request::kSet;
    return true;
  }
  if (signal != SIGINT && !((signal == SIGTERM || signal == SIGHUP) && request_is_all))
    return false;
  Request open = Request::kOpen;
  request_signal = signal;
  if (!request.compare_exchange_strong(open, Request::kSet)) return false;
  std::fputs(request_notice, stderr);
  return true;
}

void on_bus_error(int, siginfo_t* info, void*) {
  if (!is_mapped(info->si_addr)) {
    std::signal(SIGBUS, SIG_DFL);  // our own bug: the same read now ends the program
    return;
  }
  const void* none = nullptr;
  unreadable.compare_exchange_strong(none, info->si_addr);
  ::kill(::getpid(), kUnreadable);
  for (;;) ::pause();  // until the thread has ended the program
}

[[noreturn]] void end_unreadable() {
  const std::string message = terminal_safe(unreadable_file(unreadable), kLongestMessage);
  std::fprintf(stderr, "ridge: %s\n", message.c_str());
  ::_exit(static_cast<int>(ExitCode::kBadFile));
}

// Ends the program by a signal that this thread blocks.
[[noreturn]] void end_by(int signal) {
  const auto nothing_is_made = remove_unfinished();
  std::signal(signal, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  std::raise(signal);
  std::abort();  // not reached
}

// `timeout` sends SIGTERM to the program and to its process group, and a terminal that closes
// SIGHUP, so that they may come twice. Ctrl-C comes once each time.
void pass_over_repeats(int signal) {
  if (signal == SIGINT) return;
  constexpr timespec kSoon{0, 100'000'000};
  sigset_t same;
  sigemptyset(&same);
  sigaddset(&same, signal);
  while (sigtimedwait(&same, nullptr, &kSoon) > 0) {
  }
}

bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

void end_cleanly_on_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int each : {kUnreadable, kSave}) sigaddset(&signals, each);
  for (int each : {SIGINT, SIGTERM, SIGHUP})
    if (!is_ignored(each)) sigaddset(&signals, each);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
  auto wait = [signals] {
    int which = 0;
    if (sigwait(&signals, &which) != 0) return;
    while (takes_request(which)) {
      tell(which, false);
      pass_over_repeats(which);
      if (sigwait(&signals, &which) != 0) return;
    }
    if (which == kUnreadable && unreadable != nullptr) {
      const auto nothing_is_made = remove_unfinished();
      end_unreadable();
    }
    tell(which, true);
    end_by(which);
  };
  try {
    std::thread(wait).detach();
  } catch (const std::system_error& error) {
    throw memory_error("[signals] expected memory for a thread, got: {}", error.code().message());
  }
}

InterruptRequest::InterruptRequest(const char* notice, Signals signals) {
  request_notice = notice;
  request_is_all = signals == Signals::kAll;
  request = Request::kOpen;
}

InterruptRequest::~InterruptRequest() { request = Request::kNone; }

bool InterruptRequest::is_set() const { return request == Request::kSet; }

int InterruptRequest::signal() const { return request_signal; }

SaveRequest::SaveRequest() { save_request = Request::kOpen; }

SaveRequest::~SaveRequest() { save_request = Request::kNone; }

bool SaveRequest::is_set() const { return save_request == Request::kSet; }

void SaveRequest::clear() { save_request = Request::kOpen; }

void hear_signals(std::function<void(int signal, bool ends_now)> hears) {
  const std::scoped_lock lock(hearing_mutex);
  hearing = std::move(hears);
}

void end_by_interrupt(int signal) {
  std::fflush(stdout);
  end_by(signal);
}

}  // namespace ridge::files
