// SPDX-License-Identifier: Apache-2.0
// Ends the program on signals without leaving partial files: on Ctrl-C and similar signals, and
// when the program reads a mapped file that shrank.
#pragma once

#include <csignal>
#include <functional>

namespace ridge::files {

// Call first in main. One thread waits for SIGINT, SIGTERM, SIGHUP and SIGUSR1; threads started
// later inherit these signals as blocked. It removes unfinished files (files/unfinished.h) and
// raises the signal again. SIGBUS at an address of a mapped file prints the name of the file and
// exits with code 3. A signal that was ignored before, as under nohup, stays ignored.
void end_cleanly_on_signals();

// While it exists, the first Ctrl-C only sets it; the second one ends the program as usual. At most
// one exists at a time.
class InterruptRequest {
 public:
  enum class Signals { kCtrlC, kAll };  // which count: SIGINT, or SIGTERM and SIGHUP as well
  // `notice` is printed to stderr at the first Ctrl-C; it must be a literal.
  explicit InterruptRequest(const char* notice = "", Signals signals = Signals::kCtrlC);
  ~InterruptRequest();
  InterruptRequest(const InterruptRequest&) = delete;
  InterruptRequest& operator=(const InterruptRequest&) = delete;

  bool is_set() const;
  int signal() const;  // the one that set it
};

// While it exists, SIGUSR1 sets it; otherwise that signal ends the program. At most one exists at a
// time.
class SaveRequest {
 public:
  SaveRequest();
  ~SaveRequest();
  SaveRequest(const SaveRequest&) = delete;
  SaveRequest& operator=(const SaveRequest&) = delete;

  bool is_set() const;
  void clear();
};

// Called in that thread with each signal, and whether the program ends by it when the call returns.
// At most one at a time; an empty one ends it.
void hear_signals(std::function<void(int signal, bool ends_now)> hears);

// Flushes stdout and ends the program by the signal, so that a shell sees exit code 130 after
// SIGINT and a script that runs the program ends too. For work that ended early because of an
// InterruptRequest.
[[noreturn]] void end_by_interrupt(int signal = SIGINT);

}  // namespace ridge::files
