// SPDX-License-Identifier: Apache-2.0
// One event of a trace of torch.profiler, as far as it is used, and how it is put together from the
// parts of its JSON. Texts are used again for the next event.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "files/json_stream.h"

namespace ridge::record {

// Whole numbers among the arguments of events.
enum class EventNumber : uint8_t {
  kExternal,
  kOldExternal,
  kCorrelation,
  kSequence,
  kGraphNode,
  kForwardThread,
  kDeviceType,
  kAllocated,
  // Counts of kernels that Ridge wrote.
  kMacs,
  kFlops,
  kTranscendentals,
  kReadBytes,
  kWrittenBytes,
};
inline constexpr size_t kEventNumbers = 13;

// Texts of events: their own, then arguments of kernels that Ridge wrote.
enum class EventText : uint8_t { kName, kCategory, kKind, kOp, kScope, kShape, kPhase };
inline constexpr size_t kEventTexts = 7;

// A number of an event, or the type of what is there instead.
struct EventTime {
  double us = 0;
  const char* other = "none";  // null: it is a number
};

struct TorchEvent {
  bool is_object = false;
  const char* type = "null";  // an event that is no object has it
  std::array<std::string, kEventTexts> texts;
  std::array<int64_t, kEventNumbers> numbers{};  // -1: not recorded
  EventTime begin, length;
  std::string process, thread;  // as JSON
  std::string call;             // JSON of "Input Dims", "Input type" and "Concrete Inputs"

  const std::string& text(EventText which) const { return texts[static_cast<size_t>(which)]; }
  int64_t number(EventNumber which) const { return numbers[static_cast<size_t>(which)]; }
};

class TorchEventParts final : public files::JsonParts {
 public:
  // Calls `take` with each complete event.
  explicit TorchEventParts(std::function<void(const TorchEvent&)> take) : take_(std::move(take)) {
    clear();
  }

  void begin_object() override;
  void begin_array() override;
  void end() override;
  void key(std::string& name) override;
  void string(std::string& value) override;
  void integer(int64_t value) override;
  void real(double value) override;
  void boolean(bool value) override;
  void null() override;
  void complete() override;

 private:
  // The meaning of the next value.
  enum class Slot : uint8_t {
    kNone,
    kText,
    kNumber,
    kBegin,
    kLength,
    kProcess,
    kThread,
    kArguments,
    kCall
  };

  void clear();
  void open(char bracket, const char* type);
  void scalar(std::string_view json, const char* type);
  void find_slot(std::string_view name);
  void find_argument(std::string_view name);
  // A value in the call's JSON.
  void add_to_call(std::string_view json);
  EventTime* time();

  std::function<void(const TorchEvent&)> take_;
  TorchEvent event_;
  std::string brackets_;  // those that are open
  Slot slot_ = Slot::kNone;
  uint8_t at_ = 0;  // index of the text or number
  bool is_in_arguments_ = false;
  size_t call_depth_ = 0;  // the brackets around the value in the call; 0: not in the call
};

}  // namespace ridge::record
