// SPDX-License-Identifier: Apache-2.0
// Takes a topology from hwloc, and from Linux's files what hwloc leaves out: PCIe lanes, the quotas
// of control groups, NUMA balancing.
#include "measure/topology.h"

#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <tuple>
#include <utility>

#include "base/hwloc_topology.h"

namespace ridge::measure {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargestFile = 1 << 16;
constexpr int kFarthest = 255;  // the largest distance that firmware states

std::vector<int> list_of(hwloc_const_bitmap_t bitmap) {
  std::vector<int> members;
  if (hwloc_bitmap_weight(bitmap) < 0) return members;  // infinite: unknown
  for (int i = hwloc_bitmap_first(bitmap); i >= 0; i = hwloc_bitmap_next(bitmap, i))
    members.push_back(i);
  return members;
}

std::vector<hwloc_obj_t> objects(hwloc_topology_t from, hwloc_obj_type_t type) {
  std::vector<hwloc_obj_t> all;
  for (hwloc_obj_t each = hwloc_get_next_obj_by_type(from, type, nullptr); each != nullptr;
       each = hwloc_get_next_obj_by_type(from, type, each))
    all.push_back(each);
  return all;
}

void add_cpus(hwloc_topology_t from, hwloc_const_bitmap_t allowed, record::Topology& t) {
  t.cpus = static_cast<int>(objects(from, HWLOC_OBJ_PU).size());
  // A machine that does not say how its CPUs share cores has one core for each.
  std::vector<hwloc_obj_t> cores = objects(from, HWLOC_OBJ_CORE);
  if (cores.empty()) cores = objects(from, HWLOC_OBJ_PU);
  t.cores = static_cast<int>(cores.size());
  t.sockets = std::max(1, static_cast<int>(objects(from, HWLOC_OBJ_PACKAGE).size()));
  t.allowed_cpus = list_of(allowed);
  t.allowed_cores = static_cast<int>(std::ranges::count_if(cores, [&](hwloc_obj_t core) {
    return hwloc_bitmap_intersects(core->cpuset, allowed) != 0;
  }));
}

void add_caches(hwloc_topology_t from, record::Topology& t) {
  std::map<std::tuple<int, std::string, int64_t>, record::CpuCache> caches;
  for (int type = HWLOC_OBJ_L1CACHE; type <= HWLOC_OBJ_L3ICACHE; ++type)
    for (const hwloc_obj_t each : objects(from, static_cast<hwloc_obj_type_t>(type))) {
      const auto& cache = each->attr->cache;
      const char* kind = cache.type == HWLOC_OBJ_CACHE_DATA          ? "Data"
                         : cache.type == HWLOC_OBJ_CACHE_INSTRUCTION ? "Instruction"
                                                                     : "Unified";
      const int level = static_cast<int>(cache.depth);
      const auto bytes = static_cast<int64_t>(cache.size);
      const int cpus = hwloc_bitmap_weight(each->cpuset);
      ++caches.try_emplace({level, kind, bytes}, record::CpuCache{level, kind, bytes, 0, cpus})
            .first->second.instances;
    }
  for (const auto& [key, cache] : caches) t.caches.push_back(cache);
}

// Adds the distances that the system states, by the nodes' order in `nodes`.
void add_distances(hwloc_topology_t from,
                   const std::vector<hwloc_obj_t>& nodes,
                   record::Topology& t) {
  hwloc_distances_s* distances = nullptr;
  unsigned count = 1;
  if (hwloc_distances_get_by_type(from, HWLOC_OBJ_NUMANODE, &count, &distances,
                                  HWLOC_DISTANCES_KIND_FROM_OS, 0) != 0 ||
      count == 0) {
    if (t.nodes.size() == 1) t.nodes.front().distances = {10};
    return;
  }
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const hwloc_obj_t to : nodes) {
      hwloc_uint64_t there = 0, back = 0;
      if (hwloc_distances_obj_pair_values(distances, nodes[i], to, &there, &back) == 0)
        t.nodes[i].distances.push_back(
            static_cast<int>(std::min<hwloc_uint64_t>(there, kFarthest)));
    }
  hwloc_distances_release(from, distances);
}

void add_nodes(hwloc_topology_t from, hwloc_const_bitmap_t allowed, record::Topology& t) {
  std::vector<hwloc_obj_t> nodes = objects(from, HWLOC_OBJ_NUMANODE);
  std::ranges::sort(nodes, {}, [](hwloc_obj_t node) { return node->os_index; });
  const HwlocBitmap cpus_left(hwloc_bitmap_dup(hwloc_topology_get_topology_cpuset(from)));
  for (const hwloc_obj_t each : nodes) {
    // hwloc gives memory without cores the CPUs that lie nearest. Such a node has a higher number
    // than the node of these CPUs.
    const HwlocBitmap cpus(hwloc_bitmap_dup(each->cpuset));
    hwloc_bitmap_and(cpus.get(), cpus.get(), cpus_left.get());
    hwloc_bitmap_andnot(cpus_left.get(), cpus_left.get(), cpus.get());
    const int id = static_cast<int>(each->os_index);
    const auto bytes = static_cast<int64_t>(each->attr->numanode.local_memory);
    if (hwloc_bitmap_intersects(cpus.get(), allowed) != 0) t.allowed_nodes.push_back(id);
    t.nodes.push_back({id, list_of(cpus.get()), bytes, {}});
  }
  add_distances(from, nodes, t);
  t.memory_nodes = list_of(hwloc_topology_get_allowed_nodeset(from));
}

std::string vendor_name(int id) {
  return id == 0x10de ? "NVIDIA" : id == 0x1002 ? "AMD" : id == 0x8086 ? "Intel" : "";
}

// Display controllers and accelerators: PCI classes 0x03 and 0x12. A VGA adapter without lanes is
// that of a virtual or a management console.
bool is_gpu(const hwloc_obj_attr_u::hwloc_pcidev_attr_s& device) {
  if (vendor_name(device.vendor_id).empty()) return false;
  const int kind = device.class_id;
  if (kind == 0x0302 || kind == 0x0380 || kind == 0x1200) return true;
  return kind == 0x0300 && vendor_name(device.vendor_id) != "Intel";
}

// The bridges above a device, from the root.
std::vector<hwloc_obj_t> bridges(hwloc_obj_t device) {
  std::vector<hwloc_obj_t> path;
  for (hwloc_obj_t up = device->parent; up != nullptr && up->type == HWLOC_OBJ_BRIDGE;
       up = up->parent)
    path.insert(path.begin(), up);
  return path;
}

std::string link_kind(const std::vector<hwloc_obj_t>& a,
                      const std::vector<hwloc_obj_t>& b,
                      bool same_node) {
  const auto shared = static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  if (shared == 0) return same_node ? "NODE" : "SYS";
  if (shared == 1) return "PHB";  // the root complex alone
  // A switch is an upstream port and a downstream port for each device.
  return std::max(a.size(), b.size()) - shared <= 1 ? "PIX" : "PXB";
}

void add_gpus(hwloc_topology_t from, record::Topology& t) {
  std::vector<std::pair<record::PciGpu, std::vector<hwloc_obj_t>>> found;
  for (const hwloc_obj_t each : objects(from, HWLOC_OBJ_PCI_DEVICE)) {
    const hwloc_obj_attr_u::hwloc_pcidev_attr_s& device = each->attr->pcidev;
    if (!is_gpu(device)) continue;
    record::PciGpu gpu;
    gpu.address = fmt::format("{:04x}:{:02x}:{:02x}.{:x}", device.domain, device.bus, device.dev,
                              device.func);
    gpu.vendor = vendor_name(device.vendor_id);
    const hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(from, each);
    if (t.nodes.size() > 1 && hwloc_bitmap_weight(near->nodeset) == 1)
      gpu.node = hwloc_bitmap_first(near->nodeset);
    found.emplace_back(std::move(gpu), bridges(each));
  }
  std::ranges::sort(found, {}, [](const auto& each) { return each.first.address; });
  for (size_t i = 0; i < found.size(); ++i) {
    const auto& [gpu, path] = found[i];
    t.gpus.push_back(gpu);
    for (size_t j = i + 1; j < found.size(); ++j)
      t.links.push_back({i, j, link_kind(path, found[j].second, gpu.node == found[j].first.node)});
  }
}

// At most kLargestFile bytes, without the line end; empty if the file cannot be read.
std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  std::string text(kLargestFile, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\0')) text.pop_back();
  return text;
}

template <class T>
T number(std::string_view text, T otherwise) {
  T value = otherwise;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? value : otherwise;
}

// Reads "max 100000" or "150000 100000" as CPUs; 0: no limit.
double quota_of(const std::string& text) {
  const size_t space = text.find(' ');
  if (space == std::string::npos || text.starts_with("max")) return 0;
  const double quota = number<double>(text, 0), period = number<double>(text.substr(space + 1), 0);
  return quota > 0 && period > 0 ? quota / period : 0;
}

// The smallest limit of the process's group and the groups above it, in either version.
double read_quota(const fs::path& root) {
  double least = 0;
  auto add = [&](double quota) {
    if (quota > 0) least = least > 0 ? std::min(least, quota) : quota;
  };
  const std::string groups = text_of(root / "proc/self/cgroup");
  for (size_t at = 0; at < groups.size();) {
    const size_t end = std::min(groups.find('\n', at), groups.size());
    const std::string line = groups.substr(at, end - at);
    at = end + 1;
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_new = controllers.empty();
    if (!is_new && controllers != "cpu" && controllers != "cpu,cpuacct" &&
        controllers != "cpuacct,cpu")
      continue;
    const fs::path mount = is_new ? root / "sys/fs/cgroup" : root / "sys/fs/cgroup" / controllers;
    for (fs::path group = fs::path(line.substr(second + 1)).relative_path();;
         group = group.parent_path()) {
      const fs::path folder = mount / group;
      add(is_new ? quota_of(text_of(folder / "cpu.max"))
                 : quota_of(text_of(folder / "cpu.cfs_quota_us") + " " +
                            text_of(folder / "cpu.cfs_period_us")));
      if (group.empty()) break;
    }
  }
  return least;
}

}  // namespace

record::Topology topology_of(hwloc_topology* loaded) {
  record::Topology t;
  const HwlocBitmap allowed = allowed_cpus(loaded);
  add_cpus(loaded, allowed.get(), t);
  add_caches(loaded, t);
  add_nodes(loaded, allowed.get(), t);
  add_gpus(loaded, t);
  return t;
}

void add_linux_settings(record::Topology& t, const fs::path& root) {
  for (record::PciGpu& gpu : t.gpus) {
    const fs::path device = root / "sys/bus/pci/devices" / gpu.address;
    gpu.speed = text_of(device / "current_link_speed");
    gpu.most_speed = text_of(device / "max_link_speed");
    gpu.width = number(text_of(device / "current_link_width"), 0);
    gpu.most_width = number(text_of(device / "max_link_width"), 0);
  }
  t.quota_cpus = read_quota(root);
  const int balancing = number(text_of(root / "proc/sys/kernel/numa_balancing"), -1);
  if (balancing >= 0) t.numa_balancing = balancing > 0;
}

record::Topology read_topology() {
  record::Topology topology = topology_of(load_hwloc_topology().get());
  add_linux_settings(topology);
  return topology;
}

}  // namespace ridge::measure
