// SPDX-License-Identifier: Apache-2.0
// Keeps the values whose keys are known.
#include "record/import/torch_event.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace ridge::record {
namespace {

using enum EventNumber;
using enum EventText;

constexpr std::pair<std::string_view, EventNumber> kNumbers[] = {
    {"External id", kExternal},
    {"external id", kOldExternal},
    {"correlation", kCorrelation},
    {"Sequence number", kSequence},
    {"graph node id", kGraphNode},
    {"Fwd thread id", kForwardThread},
    {"Device Type", kDeviceType},
    {"Total Allocated", kAllocated},
    {"macs", kMacs},
    {"flops", kFlops},
    {"transcendentals", kTranscendentals},
    {"read_bytes", kReadBytes},
    {"written_bytes", kWrittenBytes},
};
constexpr std::pair<std::string_view, EventText> kTexts[] = {{"op", kOp},
                                                             {"scope", kScope},
                                                             {"shape", kShape},
                                                             {"phase", kPhase}};
constexpr std::string_view kCallKeys[] = {"Input Dims", "Input type", "Concrete Inputs"};
constexpr std::string_view kOldDims = "Input dims";  // in older versions

std::string json_string(const std::string& text) {
  for (const char c : text)
    if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20)
      return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return '"' + text + '"';
}

}  // namespace

void TorchEventParts::clear() {
  event_.is_object = false;
  for (std::string& text : event_.texts) text.clear();
  event_.numbers.fill(-1);
  event_.begin = event_.length = {};
  event_.process.clear();
  event_.thread.clear();
  event_.call.clear();
  brackets_.clear();
  slot_ = Slot::kNone;
  is_in_arguments_ = false;
  call_depth_ = 0;
}

void TorchEventParts::complete() {
  if (!event_.call.empty()) event_.call += '}';
  take_(event_);
  clear();
}

void TorchEventParts::key(std::string& name) {
  if (call_depth_ > 0) {
    add_to_call(json_string(name) + ":");
  } else if (brackets_.size() == 1) {
    find_slot(name);
  } else if (brackets_.size() == 2 && is_in_arguments_) {
    find_argument(name);
  }
}

void TorchEventParts::find_slot(std::string_view name) {
  constexpr std::pair<std::string_view, EventText> kOwn[] = {
      {"name", kName}, {"cat", kCategory}, {"ph", kKind}};
  constexpr std::pair<std::string_view, Slot> kOthers[] = {{"ts", Slot::kBegin},
                                                           {"dur", Slot::kLength},
                                                           {"pid", Slot::kProcess},
                                                           {"tid", Slot::kThread},
                                                           {"args", Slot::kArguments}};
  slot_ = Slot::kNone;
  for (const auto& [each, slot] : kOthers)
    if (each == name) slot_ = slot;
  for (const auto& [each, text] : kOwn) {
    if (each != name) continue;
    slot_ = Slot::kText;
    at_ = static_cast<uint8_t>(text);
  }
}

void TorchEventParts::find_argument(std::string_view name) {
  slot_ = Slot::kNone;
  if (name == kOldDims) name = kCallKeys[0];
  for (const auto& [each, number] : kNumbers) {
    if (each != name) continue;
    slot_ = Slot::kNumber;
    at_ = static_cast<uint8_t>(number);
    return;
  }
  for (const std::string_view each : kCallKeys) {
    if (each != name) continue;
    slot_ = Slot::kCall;
    event_.call += event_.call.empty() ? "{\"" : ",\"";
    event_.call += name;
    event_.call += "\":";
    return;
  }
  for (const auto& [each, text] : kTexts) {
    if (each != name) continue;
    slot_ = Slot::kText;
    at_ = static_cast<uint8_t>(text);
  }
}

// A comma stands after a value, and is taken away at the end of a list.
void TorchEventParts::add_to_call(std::string_view json) {
  event_.call += json;
  if (json.back() != ':' && json != "[" && json != "{" && call_depth_ > 0) event_.call += ',';
}

void TorchEventParts::begin_object() {
  if (brackets_.empty()) event_.is_object = true;
  is_in_arguments_ = is_in_arguments_ || (brackets_.size() == 1 && slot_ == Slot::kArguments);
  open('{', "object");
}

void TorchEventParts::begin_array() { open('[', "array"); }

void TorchEventParts::open(char bracket, const char* type) {
  if (brackets_.empty() && bracket == '[') event_.type = type;
  if (call_depth_ > 0 || slot_ == Slot::kCall) {
    ++call_depth_;
    event_.call += bracket;
  } else if (EventTime* when = time()) {
    *when = {0, type};
  } else if (slot_ == Slot::kNumber && brackets_.size() == 2) {
    event_.numbers[at_] = -1;
  } else if (slot_ == Slot::kText) {
    event_.texts[at_].clear();
  }
  slot_ = Slot::kNone;
  brackets_ += bracket;
}

void TorchEventParts::end() {
  const char bracket = brackets_.back();
  brackets_.pop_back();
  if (brackets_.size() == 1) is_in_arguments_ = false;
  if (call_depth_ == 0) return;
  --call_depth_;
  if (event_.call.back() == ',') event_.call.pop_back();
  add_to_call(bracket == '[' ? "]" : "}");
}

EventTime* TorchEventParts::time() {
  if (brackets_.size() != 1) return nullptr;
  return slot_ == Slot::kBegin ? &event_.begin : slot_ == Slot::kLength ? &event_.length : nullptr;
}

// A value that is no text or number where one is wanted.
void TorchEventParts::scalar(std::string_view json, const char* type) {
  if (brackets_.empty()) event_.type = type;
  if (call_depth_ > 0 || slot_ == Slot::kCall)
    add_to_call(json);
  else if (EventTime* when = time())
    *when = {0, json == "null" ? "none" : type};
  else if (slot_ == Slot::kText)
    event_.texts[at_].clear();
  else if (slot_ == Slot::kNumber)
    event_.numbers[at_] = -1;
  else if (slot_ == Slot::kProcess)
    event_.process = json;
  else if (slot_ == Slot::kThread)
    event_.thread = json;
  slot_ = Slot::kNone;
}

void TorchEventParts::string(std::string& value) {
  if (slot_ == Slot::kText) {
    std::swap(event_.texts[at_], value);
    slot_ = Slot::kNone;
  } else if (call_depth_ > 0 || slot_ != Slot::kNone || brackets_.empty()) {
    scalar(json_string(value), "string");
  }
}

void TorchEventParts::integer(int64_t value) {
  if (slot_ == Slot::kNumber) {
    event_.numbers[at_] = value;
    slot_ = Slot::kNone;
  } else if (EventTime* when = time()) {
    *when = {static_cast<double>(value), nullptr};
  } else if (call_depth_ > 0 || slot_ != Slot::kNone || brackets_.empty()) {
    scalar(fmt::format_int(value).str(), "number");
  }
}

void TorchEventParts::real(double value) {
  if (EventTime* when = time())
    *when = {value, nullptr};
  else if (call_depth_ > 0 || slot_ != Slot::kNone || brackets_.empty())
    scalar(fmt::format("{:#}", value), "number");
}

void TorchEventParts::boolean(bool value) { scalar(value ? "true" : "false", "boolean"); }

void TorchEventParts::null() { scalar("null", "null"); }

}  // namespace ridge::record
