// SPDX-License-Identifier: Apache-2.0
// Reads sysfs, procfs and control groups.
#include "measure/topology.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

namespace ridge::measure {
namespace {

namespace fs = std::filesystem;

constexpr int kMostCpus = 1 << 16;
constexpr size_t kLargestFile = 1 << 16;

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
int number_in(const fs::path& path, int otherwise) { return number(text_of(path), otherwise); }

// "32K", "1024K", "32M"
int64_t size_in(const fs::path& path) {
  const std::string text = text_of(path);
  int64_t size = number<int64_t>(text, 0);
  if (size < 0 || size > (int64_t{1} << 40)) return 0;
  if (text.ends_with('K')) size <<= 10;
  if (text.ends_with('M')) size <<= 20;
  return size;
}

// The names in a folder that are `prefix` and a number, by number.
std::vector<std::pair<int, fs::path>> numbered(const fs::path& folder, std::string_view prefix) {
  std::vector<std::pair<int, fs::path>> found;
  std::error_code error;
  for (fs::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error)) {
    const std::string name = each->path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const std::string digits = name.substr(prefix.size());
    if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) continue;
    const int id = number(digits, -1);
    if (id >= 0 && id < kMostCpus) found.emplace_back(id, each->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// The value of a line "Name:\t value" in a status file.
std::string field(const std::string& status, std::string_view name) {
  const size_t at = status.find("\n" + std::string(name) + ":");
  if (at == std::string::npos) return "";
  const size_t begin = status.find_first_not_of(" \t", at + name.size() + 2);
  const size_t end = status.find('\n', at + 1);
  if (begin == std::string::npos || begin >= end) return "";
  return status.substr(begin, end == std::string::npos ? end : end - begin);
}

// One core has one (socket, core id) pair; a CPU without one is a core of its own.
using CoreName = std::pair<int, int>;
CoreName core_of(const fs::path& cpu, int id) {
  return {number_in(cpu / "topology/physical_package_id", 0),
          number_in(cpu / "topology/core_id", kMostCpus + id)};
}

void read_cpus(const fs::path& root, Topology& t) {
  const fs::path folder = root / "sys/devices/system/cpu";
  const std::vector<int> online = parse_cpu_list(text_of(folder / "online"));
  const std::string status = "\n" + text_of(root / "proc/self/status");
  t.allowed_cpus = parse_cpu_list(field(status, "Cpus_allowed_list"));
  t.memory_nodes = parse_cpu_list(field(status, "Mems_allowed_list"));
  if (t.allowed_cpus.empty()) t.allowed_cpus = online;
  std::set<CoreName> cores, allowed_cores;
  std::set<int> sockets;
  std::map<std::tuple<int, std::string, int64_t>, std::set<std::string>> caches;
  for (const auto& [id, path] : numbered(folder, "cpu")) {
    if (!online.empty() && !std::binary_search(online.begin(), online.end(), id)) continue;
    ++t.cpus;
    const CoreName core = core_of(path, id);
    cores.insert(core);
    sockets.insert(core.first);
    if (std::binary_search(t.allowed_cpus.begin(), t.allowed_cpus.end(), id))
      allowed_cores.insert(core);
    for (const auto& [index, cache] : numbered(path / "cache", "index"))
      caches[{number_in(cache / "level", 0), text_of(cache / "type"), size_in(cache / "size")}]
          .insert(text_of(cache / "shared_cpu_list"));
  }
  t.cores = static_cast<int>(cores.size());
  t.sockets = static_cast<int>(sockets.size());
  t.allowed_cores = static_cast<int>(allowed_cores.size());
  for (const auto& [key, shared] : caches) {
    const auto& [level, type, bytes] = key;
    t.caches.push_back({level, type, bytes, static_cast<int>(shared.size()),
                        static_cast<int>(parse_cpu_list(*shared.begin()).size())});
  }
}

std::vector<int> words(const std::string& text) {
  std::vector<int> values;
  for (size_t at = text.find_first_not_of(' '); at < text.size();
       at = text.find_first_not_of(' ', text.find(' ', at)))
    values.push_back(number(std::string_view(text).substr(at), 0));
  return values;
}

void read_nodes(const fs::path& root, Topology& t) {
  for (const auto& [id, path] : numbered(root / "sys/devices/system/node", "node")) {
    NumaNode node{id, parse_cpu_list(text_of(path / "cpulist")), 0,
                  words(text_of(path / "distance"))};
    const std::string memory = text_of(path / "meminfo");
    if (const size_t at = memory.find("MemTotal:"); at != std::string::npos) {
      const size_t digits = memory.find_first_of("0123456789", at);
      if (digits != std::string::npos)
        node.memory_bytes =
            1024 * std::clamp<int64_t>(number<int64_t>(std::string_view(memory).substr(digits), 0),
                                       0, int64_t{1} << 50);
    }
    const bool is_allowed = std::any_of(node.cpus.begin(), node.cpus.end(), [&](int cpu) {
      return std::binary_search(t.allowed_cpus.begin(), t.allowed_cpus.end(), cpu);
    });
    if (is_allowed) t.allowed_nodes.push_back(id);
    t.nodes.push_back(std::move(node));
  }
  const int balancing = number_in(root / "proc/sys/kernel/numa_balancing", -1);
  if (balancing >= 0) t.numa_balancing = balancing > 0;
}

std::string vendor_name(const std::string& id) {
  return id == "0x10de" ? "NVIDIA" : id == "0x1002" ? "AMD" : id == "0x8086" ? "Intel" : "";
}

// Display controllers and accelerators: PCI classes 0x03 and 0x12. A VGA adapter without lanes is
// that of a virtual or a management console.
bool is_gpu(const PciGpu& gpu, const std::string& pci_class) {
  if (gpu.vendor.empty()) return false;
  if (pci_class.starts_with("0x0302") || pci_class.starts_with("0x0380") ||
      pci_class.starts_with("0x1200"))
    return true;
  return pci_class.starts_with("0x0300") && gpu.vendor != "Intel";
}

// "pci0000:16", "0000:16:01.0", ... above the device, from where sysfs links it.
std::vector<std::string> bridges(const fs::path& device) {
  std::error_code error;
  std::vector<std::string> names;
  const fs::path target = fs::read_symlink(device, error);
  for (const fs::path& part : target.parent_path()) {
    const std::string name = part.string();
    if (name.starts_with("pci") || name.find(':') != std::string::npos) names.push_back(name);
  }
  return names;
}

std::string link_kind(const PciGpu& a, const PciGpu& b) {
  if (a.path.empty() || b.path.empty()) return a.node == b.node ? "NODE" : "SYS";
  const size_t shared = static_cast<size_t>(
      std::mismatch(a.path.begin(), a.path.end(), b.path.begin(), b.path.end()).first -
      a.path.begin());
  if (shared == 0) return a.node == b.node ? "NODE" : "SYS";
  if (shared == 1) return "PHB";  // the root complex alone
  // A switch is an upstream port and a downstream port for each device.
  const size_t below = std::max(a.path.size(), b.path.size()) - shared;
  return below <= 1 ? "PIX" : "PXB";
}

void read_gpus(const fs::path& root, Topology& t) {
  const fs::path folder = root / "sys/bus/pci/devices";
  std::error_code error;
  for (fs::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error)) {
    const fs::path& device = each->path();
    PciGpu gpu;
    gpu.address = device.filename().string();
    gpu.vendor = vendor_name(text_of(device / "vendor"));
    if (!is_gpu(gpu, text_of(device / "class"))) continue;
    gpu.node = number_in(device / "numa_node", -1);
    gpu.speed = text_of(device / "current_link_speed");
    gpu.most_speed = text_of(device / "max_link_speed");
    gpu.width = number_in(device / "current_link_width", 0);
    gpu.most_width = number_in(device / "max_link_width", 0);
    gpu.path = bridges(device);
    t.gpus.push_back(std::move(gpu));
  }
  std::sort(t.gpus.begin(), t.gpus.end(),
            [](const PciGpu& a, const PciGpu& b) { return a.address < b.address; });
  for (size_t i = 0; i < t.gpus.size(); ++i)
    for (size_t j = i + 1; j < t.gpus.size(); ++j)
      t.links.push_back({i, j, link_kind(t.gpus[i], t.gpus[j])});
}

// Of "max 100000" or "150000 100000"; 0: no limit.
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

std::vector<int> parse_cpu_list(std::string_view text) {
  std::set<int> cpus;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view range = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t dash = range.find('-');
    const int first = number(range, -1);
    const int last = dash == std::string_view::npos ? first : number(range.substr(dash + 1), -1);
    if (first < 0 || last < first || last >= kMostCpus) break;
    for (int cpu = first; cpu <= last; ++cpu) cpus.insert(cpu);
  }
  return {cpus.begin(), cpus.end()};
}

std::string cpu_list(const std::vector<int>& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t end = i + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) ++end;
    text += (text.empty() ? "" : ",") + std::to_string(cpus[i]);
    if (end - i > 1) text += "-" + std::to_string(cpus[end - 1]);
    i = end;
  }
  return text;
}

Topology read_topology(const fs::path& root) {
  Topology topology;
  read_cpus(root, topology);
  read_nodes(root, topology);
  read_gpus(root, topology);
  topology.quota_cpus = read_quota(root);
  return topology;
}

}  // namespace ridge::measure
