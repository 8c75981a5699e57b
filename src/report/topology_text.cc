// SPDX-License-Identifier: Apache-2.0
// Writes tables of caches, nodes and GPUs.
#include "report/command_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "base/units.h"
#include "report/json_text.h"

namespace ridge::report {
namespace {

std::string cache_name(const record::CpuCache& cache) {
  const char* kind = cache.type == "Data" ? "d" : cache.type == "Instruction" ? "i" : "";
  return fmt::format("L{}{}", cache.level, kind);
}

std::string nodes_text(const record::Topology& t, const TerminalOptions& terminal) {
  if (t.nodes.empty()) return "";
  Table table("NUMA node | <CPUs | memory | <distances");
  for (const record::NumaNode& node : t.nodes) {
    std::string distances;
    for (int distance : node.distances) distances += fmt::format("{:>4}", distance);
    table.add({std::to_string(node.id), node.cpus.empty() ? "none" : record::cpu_list(node.cpus),
               node.memory_bytes > 0 ? format_bytes(node.memory_bytes) : "-", distances});
  }
  return table.text(terminal) + "\n";
}

std::string gpus_text(const record::Topology& t, const TerminalOptions& terminal) {
  if (t.gpus.empty()) return "";
  std::vector<Table::Column> columns{
      {"GPU", Align::kLeft}, {"name", Align::kLeft}, {"node"}, {"PCIe", Align::kLeft}};
  for (size_t i = 0; i < t.gpus.size(); ++i) columns.push_back({fmt::format("to {}", i)});
  Table table(std::move(columns));
  for (size_t i = 0; i < t.gpus.size(); ++i) {
    const record::PciGpu& gpu = t.gpus[i];
    std::vector<std::string> row{
        fmt::format("{} {}", i, terminal_safe(gpu.address)),
        terminal_safe(gpu.name.empty() ? gpu.vendor : gpu.name),
        gpu.node >= 0 ? std::to_string(gpu.node) : "-",
        gpu.width > 0 ? fmt::format("{} x{}", terminal_safe(gpu.most_speed), gpu.width) : "-"};
    for (size_t j = 0; j < t.gpus.size(); ++j) {
      std::string kind = "-";
      for (const record::GpuLink& link : t.links)
        if (link.first == std::min(i, j) && link.second == std::max(i, j)) kind = link.kind;
      row.push_back(kind);
    }
    table.add(std::move(row));
  }
  return table.text(terminal) + "\n";
}

}  // namespace

std::string topology_line(const record::Topology& t) {
  std::string text =
      fmt::format("{}, {}, {}, {}", counted(t.sockets, "socket"), counted(t.cores, "core"),
                  counted(t.cpus, "CPU"), counted(std::ssize(t.nodes), "NUMA node"));
  if (static_cast<int>(t.allowed_cpus.size()) < t.cpus)
    text += fmt::format("; this process may use CPUs {}", record::cpu_list(t.allowed_cpus));
  for (const record::CpuCache& cache : t.caches)
    if (cache.type != "Instruction" && cache.bytes > 0)
      text += fmt::format("{}{} {}{}", &cache == &t.caches.front() ? "; " : ", ", cache_name(cache),
                          format_bytes(cache.bytes),
                          cache.instances > 1 ? fmt::format(" x {}", cache.instances) : "");
  if (!t.gpus.empty())
    text += "; " + counted(std::ssize(t.gpus), "GPU") +
            (t.links.empty() ? "" : fmt::format(" ({})", t.links.front().kind));
  return text;
}

std::string performance_warning_lines(const record::Topology& t, int threads) {
  std::string text;
  for (const record::PerformanceWarning& each : record::performance_warnings(t, threads))
    text += fmt::format("{}: {}\n", each.what, each.remedy);
  return text;
}

std::string topology_text(const record::Topology& t, int threads, const TerminalOptions& terminal) {
  std::string text = wrap_lines(topology_line(t), terminal.columns) + "\n";
  if (!t.caches.empty()) {
    Table table("<cache | size | number | CPUs that share one");
    for (const record::CpuCache& cache : t.caches)
      table.add({cache_name(cache), cache.bytes > 0 ? format_bytes(cache.bytes) : "-",
                 std::to_string(cache.instances), std::to_string(cache.cpus)});
    text += table.text(terminal) + "\n";
  }
  text += nodes_text(t, terminal) + gpus_text(t, terminal);
  std::string settings =
      fmt::format("automatic NUMA balancing: {}; quota of the control groups: {}\n",
                  !t.numa_balancing   ? "not in this kernel"
                  : *t.numa_balancing ? "on"
                                      : "off",
                  t.quota_cpus > 0 ? fmt::format("{:g} CPUs", t.quota_cpus) : "none");
  const std::string warnings = performance_warning_lines(t, threads);
  settings += warnings.empty() ? fmt::format("nothing found that costs speed with {}\n",
                                             counted(threads, "thread"))
                               : "What costs speed, and what mends it:\n" + warnings;
  return text + wrap_lines(settings, terminal.columns);
}

std::string topology_json(const record::Topology& t, int threads) {
  Json json = to_json(t);
  json["threads"] = threads;
  json["performance_warnings"] = value_json(record::performance_warnings(t, threads));
  return json_text(json);
}

}  // namespace ridge::report
