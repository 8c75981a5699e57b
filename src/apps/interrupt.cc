// SPDX-License-Identifier: Apache-2.0
// Handles signals in a thread, because a signal handler may not take locks, walk folders or print.
// Not a subcommand.
#include "apps/interrupt.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <thread>

#include "base/error.h"
#include "base/terminal.h"
#include "files/mapped_file.h"
#include "files/unfinished.h"

namespace ridge::apps {
namespace {

constexpr int kUnreadable = SIGUSR1;            // from the SIGBUS handler to the thread
std::atomic<const void*> unreadable = nullptr;  // the address whose read failed

void on_bus_error(int, siginfo_t* info, void*) {
  if (!files::is_mapped(info->si_addr)) {
    std::signal(SIGBUS, SIG_DFL);  // our own bug: the same read now ends the program
    return;
  }
  const void* none = nullptr;
  unreadable.compare_exchange_strong(none, info->si_addr);
  ::kill(::getpid(), kUnreadable);
  for (;;) ::pause();  // until the thread has ended the program
}

[[noreturn]] void end_unreadable() {
  const std::string message = terminal_safe(files::unreadable_file(unreadable));
  std::fprintf(stderr, "ridge: %s\n", message.c_str());
  ::_exit(static_cast<int>(ExitCode::kBadFile));
}

}  // namespace

void end_cleanly_on_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int each : {SIGINT, SIGTERM, SIGHUP, kUnreadable}) sigaddset(&signals, each);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
  std::thread([signals] {
    int which = 0;
    if (sigwait(&signals, &which) != 0) return;
    files::remove_unfinished();
    if (which == kUnreadable && unreadable != nullptr) end_unreadable();
    std::signal(which, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    std::raise(which);
  }).detach();
}

}  // namespace ridge::apps
