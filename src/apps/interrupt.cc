// SPDX-License-Identifier: Apache-2.0
// Waits in a thread, which may take locks and walk folders; a signal handler may not.
// Not a subcommand.
#include "apps/interrupt.h"

#include <pthread.h>

#include <csignal>
#include <thread>

#include "files/unfinished.h"

namespace ridge::apps {

void remove_unfinished_on_interrupt() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int each : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, each);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] {
    int which = 0;
    if (sigwait(&signals, &which) != 0) return;
    files::remove_unfinished();
    std::signal(which, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    std::raise(which);
  }).detach();
}

}  // namespace ridge::apps
