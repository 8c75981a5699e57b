// SPDX-License-Identifier: Apache-2.0
// The events of a trace in the shape of PyTorch's profiler (Kineto) as text. Knows nothing of what
// happens in them.
#pragma once

#include <cstdint>
#include <string>

#include "report/json_text.h"
#include "report/trace_layout.h"

namespace ridge::report {

// A thread of a process.
struct Track {
  int pid = 0, tid = 0;
};

class TraceEvents {
 public:
  explicit TraceEvents(int64_t cap_bytes) : cap_bytes_(cap_bytes) {}

  // Metadata events are few, so they are written even beyond the cap.
  void name(int pid, int tid, const char* what, Json value);
  // The name and the place of a thread, and of a process with its label.
  void thread(int pid, int tid, const std::string& name);
  void process(int pid, const std::string& name, const std::string& label, int place);

  void slice(const char* category, const std::string& name, Track track, Slice at, Json args);
  // The begin ("s") or the end ("f") of an arrow from a launch to a kernel.
  void flow(const char* side, int pid, int tid, int64_t at_ns, int64_t correlation);
  void counter(const char* name, int pid, int64_t at_ns, Json values);
  // A moment on a thread, for readers that find what it counts by its name.
  void instant(const char* name, Track track, int64_t at_ns, Json args);

  int64_t written() const { return written_; }
  int64_t dropped() const { return dropped_; }  // to stay under the cap
  // Events that another one has written.
  void add(const std::string& events, int64_t written, int64_t dropped);
  const std::string& text() const { return text_; }  // the events, with commas between them
  // The whole trace; `name` is its file's.
  std::string document(const Json& device,
                       const std::string& name,
                       const Json& other,
                       int64_t rank = 0,
                       int64_t ranks = 1) const;

 private:
  void event(const Json& json);
  void put(const Json& json);

  int64_t cap_bytes_;
  std::string text_;
  int64_t written_ = 0, dropped_ = 0;
};

}  // namespace ridge::report
