// SPDX-License-Identifier: Apache-2.0
// Sorts and nests events.
#include "record/import/host_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <tuple>

namespace ridge::record {
namespace {

constexpr size_t kLongestPart = 100;
constexpr int kMostDepth = 32;  // modules in modules

// "Block_3" -> "Block"
std::string_view class_of(std::string_view instance) {
  const size_t end = instance.find_last_not_of("0123456789");
  const bool is_numbered =
      end != std::string_view::npos && end > 0 && end + 1 < instance.size() && instance[end] == '_';
  return is_numbered ? instance.substr(0, end) : instance;
}

struct Module {
  int32_t parent = -1;  // number of its name
  bool is_seen = false;
  bool has_modules = false;
  int index = 0;  // among those of its class in its parent
};

}  // namespace

HostTree host_tree(const ForeignTrace& trace) {
  HostTree tree;
  tree.parents.assign(trace.events.size(), -1);
  for (uint32_t i = 0; i < trace.events.size(); ++i)
    if (trace.events[i].kind != EventKind::kKernel &&
        trace.events[i].kind != EventKind::kDeviceRange)
      tree.order.push_back(i);
  auto key = [&](uint32_t i) {
    const ForeignEvent& event = trace.events[i];
    return std::make_tuple(event.track, event.begin_ns, -event.length_ns, i);
  };
  std::sort(tree.order.begin(), tree.order.end(),
            [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  std::vector<uint32_t> open;
  for (const uint32_t i : tree.order) {
    const ForeignEvent& event = trace.events[i];
    if (!open.empty() && trace.events[open.back()].track != event.track) open.clear();
    while (!open.empty() && trace.events[open.back()].end_ns() <= event.begin_ns) open.pop_back();
    if (!open.empty()) tree.parents[i] = static_cast<int32_t>(open.back());
    open.push_back(i);
  }
  return tree;
}

std::string scope_part(std::string_view text) {
  std::string part(text.substr(0, kLongestPart));
  for (char& c : part)
    if (c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '_';
  return part;
}

ModuleScopes::ModuleScopes(const ForeignTrace& trace, const HostTree& tree)
    : scopes_(trace.names.size()) {
  std::vector<Module> modules(trace.names.size());
  std::vector<uint32_t> found;                           // in order of their first call
  std::vector<int32_t> inside(trace.events.size(), -1);  // the name of the innermost module
  std::map<std::pair<int32_t, std::string>, int> counts;
  for (const uint32_t i : tree.order) {
    const int32_t parent = tree.parents[i];
    const int32_t outer = parent < 0 ? -1 : inside[static_cast<size_t>(parent)];
    inside[i] = outer;
    if (trace.events[i].kind != EventKind::kModule) continue;
    const uint32_t name = trace.events[i].name;
    inside[i] = static_cast<int32_t>(name);
    Module& module = modules[name];
    if (module.is_seen) continue;
    module = {outer, true, false, counts[{outer, std::string(class_of(trace.names[name]))}]++};
    if (outer >= 0) modules[static_cast<size_t>(outer)].has_modules = true;
    found.push_back(name);
  }
  // A module's first parent was called before it, so its scope is there already.
  std::vector<int> depths(trace.names.size(), 0);
  for (const uint32_t name : found) {
    const Module& module = modules[name];
    const std::string kind(class_of(trace.names[name]));
    std::string part = scope_part(kind);
    if (counts[{module.parent, kind}] > 1)
      part += fmt::format("{}{}", module.has_modules ? '.' : '_', module.index);
    if (module.parent < 0) {
      scopes_[name] = part;
      continue;
    }
    const auto outer = static_cast<size_t>(module.parent);
    depths[name] = depths[outer] + 1;
    scopes_[name] = depths[name] > kMostDepth ? scopes_[outer] : scopes_[outer] + "/" + part;
  }
}

const std::string& ModuleScopes::of(uint32_t name) const { return scopes_[name]; }

}  // namespace ridge::record
