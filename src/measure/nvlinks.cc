// SPDX-License-Identifier: Apache-2.0
// Asks NVIDIA's management library (NVML), opened at run time, for names and NVLinks. The types
// repeat the few of its documented interface that are used.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "measure/topology.h"

namespace ridge::measure {
namespace {

using Device = struct NvmlDevice*;
constexpr int kSuccess = 0;
constexpr unsigned kMostLinks = 32;
constexpr unsigned kEnabled = 1;
constexpr int kToSwitch = 2;  // NVML_NVLINK_DEVICE_TYPE_SWITCH

// nvmlPciInfo_t
struct PciInfo {
  char legacy_address[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char address[32];
};

struct Nvml {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*by_address)(const char*, Device*) = nullptr;
  int (*name)(Device, char*, unsigned) = nullptr;
  int (*link_state)(Device, unsigned, unsigned*) = nullptr;
  int (*link_remote)(Device, unsigned, PciInfo*) = nullptr;
  int (*link_remote_type)(Device, unsigned, int*) = nullptr;

  bool open() {
    void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return false;
    auto find = [&](auto& function, const char* symbol) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(library, symbol));
      return function != nullptr;
    };
    return find(init, "nvmlInit_v2") && find(shutdown, "nvmlShutdown") &&
           find(by_address, "nvmlDeviceGetHandleByPciBusId_v2") &&
           find(name, "nvmlDeviceGetName") && find(link_state, "nvmlDeviceGetNvLinkState") &&
           find(link_remote, "nvmlDeviceGetNvLinkRemotePciInfo_v2") &&
           find(link_remote_type, "nvmlDeviceGetNvLinkRemoteDeviceType");
  }
};

struct Links {
  int to_switch = 0;
  std::map<std::array<unsigned, 3>, int> direct;  // domain, bus and device of the other end
};

Links links_of(const Nvml& nvml, Device device) {
  Links links;
  for (unsigned link = 0; link < kMostLinks; ++link) {
    unsigned state = 0;
    if (nvml.link_state(device, link, &state) != kSuccess || state != kEnabled) continue;
    PciInfo remote{};
    int type = 0;
    const bool has_type = nvml.link_remote_type(device, link, &type) == kSuccess;
    if (has_type && type == kToSwitch)
      ++links.to_switch;
    else if (nvml.link_remote(device, link, &remote) == kSuccess)
      ++links.direct[{remote.domain, remote.bus, remote.device}];
  }
  return links;
}

// "0000:17:00.0" as {0, 0x17, 0}
std::array<unsigned, 3> parts(const std::string& address) {
  std::array<unsigned, 3> found{};
  size_t at = 0;
  for (unsigned& part : found) {
    char* end = nullptr;
    part = static_cast<unsigned>(std::strtoul(address.c_str() + at, &end, 16));
    at = std::min(static_cast<size_t>(end - address.c_str()) + 1, address.size());
  }
  return found;
}

}  // namespace

void add_nvlinks(record::Topology& topology) {
  const bool any = std::any_of(topology.gpus.begin(), topology.gpus.end(),
                               [](const record::PciGpu& gpu) { return gpu.vendor == "NVIDIA"; });
  Nvml nvml;
  if (!any || !nvml.open() || nvml.init() != kSuccess) return;
  std::vector<Links> links(topology.gpus.size());
  for (size_t i = 0; i < topology.gpus.size(); ++i) {
    record::PciGpu& gpu = topology.gpus[i];
    Device device = nullptr;
    if (gpu.vendor != "NVIDIA" || nvml.by_address(gpu.address.c_str(), &device) != kSuccess)
      continue;
    std::array<char, 96> name{};
    if (nvml.name(device, name.data(), static_cast<unsigned>(name.size())) == kSuccess)
      gpu.name = name.data();
    links[i] = links_of(nvml, device);
  }
  for (record::GpuLink& link : topology.links) {
    // Through switches every GPU reaches every other with all its links.
    int count = std::min(links[link.first].to_switch, links[link.second].to_switch);
    const auto direct = links[link.first].direct.find(parts(topology.gpus[link.second].address));
    if (direct != links[link.first].direct.end()) count = std::max(count, direct->second);
    if (count > 0) link.kind = "NV" + std::to_string(count);
  }
  nvml.shutdown();
}

}  // namespace ridge::measure
