// SPDX-License-Identifier: Apache-2.0
// Runs graphs alone. Nothing here knows which op or module a graph is.
#include "bench/graph_trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <set>

#include "backends/cpu/product_names.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/process_memory.h"
#include "base/random.h"
#include "base/samples.h"
#include "base/timed_work.h"
#include "base/units.h"
#include "cost/predict.h"
#include "files/quantize.h"
#include "graph/builder.h"
#include "measure/launch_rate.h"
#include "measure/repeated_runs.h"
#include "ops/registry.h"
#include "passes/differentiate.h"
#include "plan/planned_graph.h"
#include "record/run_counts.h"
#include "runtime/load.h"
#include "runtime/program.h"

namespace ridge::bench {
namespace {

constexpr int kWarmups = 3;
constexpr size_t kMostSamples = 50;
constexpr size_t kLeastSamples = 7;  // one more than the fewest whose interval reaches 95%
constexpr double kPatience = 3;      // budgets that the least number of samples may take
constexpr double kSampleNs = 200e3;  // shorter calls are repeated: a clock reading costs 30 ns
// A sample ends with a wait. Where the host waits for a device, the device idles for some 10 us in
// each sample, so samples are longer. A wait for nothing takes less than kNoWaitNs.
constexpr double kNoWaitNs = 500, kWaitingSampleNs = 2e6;
constexpr int64_t kMostCopies = 4096;

// So many elements are drawn; larger operands repeat them. It is no power of two, so that the rows
// of a matrix differ, but a multiple of all blocks.
constexpr int64_t kDrawn = (int64_t{1} << 21) - 256;

std::vector<float> draw(const Fill& fill, int64_t count) {
  Random random(7);
  std::vector<float> data(static_cast<size_t>(count));
  if (fill.kind == Fill::kNormal || fill.kind == Fill::kPositive) random.fill_normal(data, 1.0f);
  for (int64_t i = 0; i < count; ++i) {
    float& value = data[static_cast<size_t>(i)];
    switch (fill.kind) {
      case Fill::kNormal:
        value *= static_cast<float>(fill.parameter);
        break;
      case Fill::kPositive:
        value = 0.1f + std::abs(value);
        break;
      case Fill::kIds:
        value =
            static_cast<float>(random.below(static_cast<uint32_t>(std::max(fill.parameter, 1.0))));
        break;
      case Fill::kPositions:
        value = static_cast<float>(i % std::max<int64_t>(static_cast<int64_t>(fill.parameter), 1));
        break;
      case Fill::kConstant:
        value = static_cast<float>(fill.parameter);
        break;
      case Fill::kDistinct:
        value = static_cast<float>(i % 251);
        break;
    }
  }
  return data;
}

template <typename T, typename Convert>
std::vector<std::byte> bytes_of(const std::vector<float>& data, const Convert& convert) {
  std::vector<std::byte> bytes(data.size() * sizeof(T));
  for (size_t i = 0; i < data.size(); ++i) {
    T value = convert(data[i]);
    std::memcpy(&bytes[i * sizeof(T)], &value, sizeof(T));
  }
  return bytes;
}

std::vector<std::byte> encode(DType dtype, const std::vector<float>& data) {
  switch (dtype) {
    case DType::kI32:
      return bytes_of<int32_t>(data, [](float x) { return static_cast<int32_t>(x); });
    case DType::kI8:
      return bytes_of<int8_t>(
          data, [](float x) { return static_cast<int8_t>(std::clamp(32 * x, -127.0f, 127.0f)); });
    default:
      break;
  }
  if (!files::can_quantize(dtype))
    throw usage_error("[bench] no data for elements of type {}", name(dtype));
  std::vector<std::byte> bytes(
      static_cast<size_t>(storage_bytes(dtype, static_cast<int64_t>(data.size()))));
  files::quantize(dtype, data, bytes);
  return bytes;
}

bool is_operand(const Value& value) {
  return value.storage != Storage::kTemporary && value.producer == kNoNode;
}

Fill fill_of(const TrialGraph& trial, const std::string& name) {
  // For copies and gradients, the name of their operand follows the last slash.
  auto found =
      trial.fills.find(name.substr(name.rfind('/') == name.npos ? 0 : name.rfind('/') + 1));
  return found == trial.fills.end() ? Fill{} : found->second;
}

// Whether it is a statistic that an op gives next to its results, such as the reciprocal of a norm.
// The op has no gradient of it.
bool is_statistic(const Graph& graph, ValueId value) {
  const Node* node = graph.producer(value);
  if (node == nullptr || node->op->kind == OpKind::kView) return false;
  const size_t results = is_a(node, ops::add_rms_norm_op()) ? 2 : 1;
  return std::find(node->outputs.begin(), node->outputs.end(), value) - node->outputs.begin() >=
         static_cast<std::ptrdiff_t>(results);
}

// Throws a usage Error for an op without a gradient between one of these values and an output.
void expect_gradients(const Graph& graph, const std::vector<ValueId>& wanted) {
  std::set<ValueId> needed(wanted.begin(), wanted.end());
  for (const Node& node : graph.nodes) {
    if (std::none_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId input) { return needed.contains(input); }))
      continue;
    if (node.op->gradient == nullptr && !is_a(node, ops::slice_op()))
      throw usage_error("[backward] {} has no gradient", node.op->name);
    for (ValueId input : node.inputs)
      if (needed.contains(input) && is_statistic(graph, input))
        throw usage_error("[backward] {} reads a statistic of {}, which has no gradient",
                          node.op->name, graph.producer(input)->op->name);
    needed.insert(node.outputs.begin(), node.outputs.end());
  }
}

// Returns the names of the operands whose gradients it adds to the outputs.
std::vector<std::string> append_gradients(const TrialGraph& trial, Graph& graph) {
  Builder b(graph, ops::table());
  std::vector<ValueId> outputs, gradients, wanted;
  for (ValueId output : std::vector<ValueId>(graph.outputs)) {
    if (!is_float(graph.type(output).dtype) || graph.producer(output) == nullptr ||
        is_statistic(graph, output))
      continue;
    outputs.push_back(output);
    gradients.push_back(
        b.input(fmt::format("gradient.{}", outputs.size() - 1), graph.type(output)));
  }
  const std::set<ValueId> seeds(gradients.begin(), gradients.end());
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (is_operand(value) && is_float(value.type.dtype) &&
        !seeds.contains(static_cast<ValueId>(i)) && fill_of(trial, value.name).differentiable)
      wanted.push_back(static_cast<ValueId>(i));
  }
  expect_gradients(graph, wanted);
  std::vector<std::string> names;
  const std::vector<ValueId> found =
      passes::pull_back(graph, ops::table(), outputs, gradients, wanted);
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] == kNoValue) continue;
    graph.outputs.push_back(found[i]);
    names.push_back(graph.value(wanted[i]).name);
  }
  if (names.empty()) throw usage_error("[backward] no operand has a gradient");
  return names;
}

// The graph several times, each with operands of its own: "1/input.0".
Graph copies_of(const Graph& graph, int64_t count) {
  Graph all;
  all.origins = graph.origins;
  for (int64_t copy = 0; copy < count; ++copy) {
    const ValueId first_value = static_cast<ValueId>(all.values.size());
    const NodeId first_node = static_cast<NodeId>(all.nodes.size());
    for (Value value : graph.values) {
      if (copy > 0 && !value.name.empty()) value.name = fmt::format("{}/{}", copy, value.name);
      if (value.producer != kNoNode) value.producer += first_node;
      all.values.push_back(std::move(value));
    }
    for (Node node : graph.nodes) {
      for (ValueId& each : node.inputs) each += first_value;
      for (ValueId& each : node.outputs) each += first_value;
      all.nodes.push_back(std::move(node));
    }
    for (ValueId output : graph.outputs) all.outputs.push_back(output + first_value);
  }
  return all;
}

// So many copies fill four times the caches, as far as memory and the number of nodes allow.
int64_t cold_copies(const cost::CostedGraph& costed,
                    const cost::Ceilings* ceilings,
                    int64_t most_bytes) {
  constexpr int64_t kUnknownCache = int64_t{64} << 20;
  const size_t levels = ceilings == nullptr ? 0 : ceilings->levels.size();
  const int64_t cache = levels > 1 ? ceilings->levels[levels - 2].capacity_bytes : kUnknownCache;
  const int64_t one = std::max<int64_t>(costed.memory.owned_bytes(), 1);
  const int64_t nodes = std::max<int64_t>(std::ssize(costed.graph.nodes), 1);
  int64_t copies = ceil_div(4 * cache, one) + 1;
  copies = std::min({copies, std::max<int64_t>(most_bytes / one, 1), kMostCopies,
                     std::max<int64_t>(kMostNodes / 2 / nodes, 1)});
  return std::max<int64_t>(copies, 1);
}

// The smallest level of memory that holds a working set.
std::string level_of(int64_t bytes, const std::vector<cost::MemoryLevel>& levels) {
  for (const cost::MemoryLevel& level : levels)
    if (bytes <= level.capacity_bytes) return level.name;
  return levels.empty() ? "" : levels.back().name;
}

// Nodes with multiplications have the roofline's limit; others what is predicted without overhead.
double limit_of(const cost::NodePrediction& p, const cost::NodeCost& cost) {
  return cost.work.macs > 0 ? p.limit_ns : std::max(p.compute_ns, p.memory_ns);
}

cost::Bound main_bound(const std::vector<cost::NodePrediction>& predictions) {
  std::map<cost::Bound, double> ns;
  for (const cost::NodePrediction& each : predictions)
    if (each.bound != cost::Bound::kNone) ns[each.bound] += each.ns;
  cost::Bound bound = cost::Bound::kNone;
  for (const auto& [each, sum] : ns)
    if (bound == cost::Bound::kNone || sum > ns[bound]) bound = each;
  return bound;
}

// Predicts the time of one of the copies of which a graph consists. Predictions assume that caches
// hold what the graph's last run left.
void predict(const cost::CostedGraph& costed,
             int64_t copies,
             const cost::Ceilings& ceilings,
             record::BenchPoint& point) {
  const std::vector<cost::NodePrediction> predictions = cost::predict_nodes(costed, ceilings);
  const double n = static_cast<double>(copies);
  point.predicted_ns = cost::predict_repeated_ns(costed, predictions, ceilings) / n;
  point.limit_ns = 0;
  for (size_t i = 0; i < predictions.size(); ++i)
    point.limit_ns += limit_of(predictions[i], costed.costs[i]) / n;
  point.bound = main_bound(predictions);
  point.level = level_of(costed.memory.owned_bytes(), ceilings.levels);
}

cost::Ceilings ceilings_now(const cost::Ceilings& ceilings, const measure::LaunchRate& rate) {
  return rate.samples().empty() ? ceilings : cost::at_launch_rate(ceilings, median(rate.samples()));
}

std::string unsupported(const Graph& graph, const plan::Target& target) {
  for (const Node& node : graph.nodes) {
    if (node.op->kind == OpKind::kView) continue;
    if (std::string why = target.unsupported(graph, node); !why.empty())
      return node.op->name + ": " + why;
  }
  return "";
}

// A CPU has no records of its kernels; products get the names of what its library chose.
void name_products(const Graph& graph, record::StepRecord& step) {
  for (record::TimelineRun& each : step.timeline)
    for (record::Span& span : each.run.spans) {
      if (span.kernel >= 0) continue;
      record::DeviceKernel kernel;
      kernel.name = backends::cpu::product_kernel(graph, graph.node(span.node));
      if (kernel.name.empty()) continue;
      auto found = std::ranges::find(each.run.kernels, kernel);
      if (found == each.run.kernels.end())
        found = each.run.kernels.insert(each.run.kernels.end(), kernel);
      span.kernel = static_cast<int32_t>(found - each.run.kernels.begin());
    }
}

// Tensors of a file that there is not: all of a type are the same bytes, from its begin.
class RandomWeightFile {
 public:
  explicit RandomWeightFile(const LoadGraph& load) : load_(load) {}

  std::span<const std::byte> bytes(const std::string& name) {
    const Type& type = load_.graph.type(load_.graph.find(name));
    const size_t size = static_cast<size_t>(storage_bytes(type.dtype, type.shape.elements()));
    std::vector<std::byte>& of_type = bytes_[type.dtype];
    if (of_type.size() < size) {
      // Bytes that were handed out before stay where they are.
      if (!of_type.empty()) outgrown_.push_back(std::move(of_type));
      const std::vector<std::byte> run =
          encode(type.dtype, draw({Fill::kNormal, 0.02}, std::min(type.shape.elements(), kDrawn)));
      of_type.resize(size);
      for (size_t at = 0; at < size; at += run.size())
        std::copy_n(run.begin(), std::min(run.size(), size - at),
                    of_type.begin() + static_cast<int64_t>(at));
    }
    return {of_type.data(), size};
  }

 private:
  const LoadGraph& load_;
  std::map<DType, std::vector<std::byte>> bytes_;
  std::vector<std::vector<std::byte>> outgrown_;
};

void refuse(const std::string& reason, bool lacks_memory, record::BenchPoint& point) {
  point.refused = reason;
  point.lacks_memory = lacks_memory;
  point.cache.clear();
}

// A bound graph that runs.
class Running {
 public:
  Running(const TrialGraph& trial, PreparedGraph prepared, backends::Backend& backend)
      : backend_(backend),
        before_(backend.taken_memory()),
        load_(std::move(prepared.load)),
        file_(load_),
        store_(backend),
        program_(backend, store_) {
    if (!load_.stored.empty()) {
      const bool copies = backend.borrow({}) != nullptr;
      runtime::load_stored(load_,
                           {.bytes = [this](const std::string& name) { return file_.bytes(name); },
                            .copies = copies},
                           store_);
    }
    program_.add("trial", std::move(prepared.graph));
    program_.bind();
    std::vector<std::string> copied;
    for (const std::string& name : store_.names()) {
      if (load_.stored.contains(name)) continue;
      if (const size_t slash = name.find('/');
          slash != name.npos && store_.has(name.substr(slash + 1)))
        copied.push_back(name);
      else
        fill_operand(store_, name, fill_of(trial, name));
    }
    for (const std::string& name : copied) copy_operand(name.substr(name.find('/') + 1), name);
  }

  Summary time(const TrialSetting& setting, const std::function<void()>& between) {
    return time_repeatedly([this] { program_.run(0); }, [this] { program_.wait(); },
                           setting.budget_ns, setting.is_stopped, between);
  }

  // Null if it was stopped.
  std::shared_ptr<const record::RunRecord> profile(const TrialSetting& setting,
                                                   const cost::Ceilings* ceilings) {
    auto record = std::make_shared<record::RunRecord>();
    const std::vector<record::PredictedGraph> graphs =
        record::count_graphs(program_.graphs(), ceilings, *record);
    for (const Value& value : program_.graph(0).graph().values)
      if (value.storage == Storage::kParameter) record->parameters += value.type.shape.elements();
    record->memory.peak_was_reset = reset_peak_memory();
    measure::RepeatedRuns runs(
        backend_, {.once =
                       [this] {
                         program_.run(0);
                         program_.wait();
                       },
                   .profiled = [this] { return std::vector{program_.run_profiled(0)}; }});
    if (!runs.run({.budget_ns = setting.budget_ns}, setting.is_stopped)) return nullptr;
    runs.measurement().fill(graphs, *record);
    if (backend_.name() == "cpu") name_products(program_.graph(0).graph(), record->step);
    record->counts = runs.counts();
    record->memory.before = before_;
    record->memory.foreign_bytes = before_.resident_bytes;
    record->memory.allocated_bytes = store_.bytes() + program_.arena_bytes();
    record->memory.after = backend_.taken_memory();
    return record;
  }

 private:
  void copy_operand(const std::string& from, const std::string& to) {
    const Type& type = store_.type(from);
    const int64_t bytes = storage_bytes(type.dtype, type.shape.elements());
    if (copied_ != from) {
      copy_.resize(static_cast<size_t>(bytes));
      store_.read(from, copy_.data(), bytes);
      copied_ = from;
    }
    store_.write(to, copy_.data(), bytes);
  }

  backends::Backend& backend_;
  ProcessMemory before_;
  LoadGraph load_;
  RandomWeightFile file_;
  runtime::Store store_;
  runtime::Program program_;
  std::string copied_;
  std::vector<std::byte> copy_;
};

}  // namespace

void fill_operand(runtime::Store& store, const std::string& name, const Fill& fill) {
  const Type& type = store.type(name);
  const int64_t elements = type.shape.elements();
  if (elements == 0) return;
  const int64_t drawn = std::min(elements, kDrawn);
  const std::vector<std::byte> run = encode(type.dtype, draw(fill, drawn));
  const int64_t all = storage_bytes(type.dtype, elements), most = std::ssize(run);
  for (int64_t begin = 0; begin < all; begin += most)
    store.write_part(name, begin, run.data(), std::min(most, all - begin));
}

std::string operand_types(const Graph& graph) {
  constexpr size_t kLongest = 60;
  std::string text;
  int64_t count = 0;
  for (const Value& value : graph.values) {
    if (!is_operand(value)) continue;
    ++count;
    if (text.size() <= kLongest) text += (text.empty() ? "" : ", ") + value.type.str();
  }
  return text.size() <= kLongest ? text
                                 : text.substr(0, kLongest) + fmt::format("... ({} inputs)", count);
}

Summary time_repeatedly(const std::function<void()>& once,
                        const std::function<void()>& wait,
                        double budget_ns,
                        const std::function<bool()>& is_stopped,
                        const std::function<void()>& between) {
  auto measured = [&](int64_t repeats) {
    const double ns = timed_ns([&] {
      for (int64_t i = 0; i < repeats; ++i) once();
      wait();
    });
    return ns / static_cast<double>(repeats);
  };
  double one = 0, waited = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kWarmups && (i == 0 || (one < budget_ns && !is_stopped())); ++i) {
    const double begin = now_ns();
    once();  // lazy loading and page faults happen in the first
    const double launched = now_ns();
    wait();
    const double end = now_ns();
    one = std::max(end - begin, 1.0), waited = std::min(waited, end - launched);
  }
  const double sample_ns = waited < kNoWaitNs ? kSampleNs : kWaitingSampleNs;
  const int64_t repeats = std::max<int64_t>(1, std::llround(sample_ns / one));
  std::vector<double> samples;
  const double start = now_ns();
  while (samples.size() < kMostSamples && !is_stopped()) {
    const double spent = now_ns() - start;
    if (!samples.empty() && spent > (samples.size() < kLeastSamples ? kPatience : 1.0) * budget_ns)
      break;
    between();
    samples.push_back(measured(repeats));
  }
  return is_stopped() ? Summary{} : summarize(samples);
}

PreparedGraph prepare(const TrialGraph& trial,
                      const TrialSetting& setting,
                      const passes::PassTarget& target) {
  PreparedGraph prepared{trial.graph, trial.load, {}};
  passes::PassContext context{ops::table(), target, prepared.load, nullptr, target.passes()};
  auto run = [&](passes::Stage stage) {
    prepared.graph = passes::run_stage(stage, prepared.graph, setting.selection, context, nullptr);
  };
  run(passes::Stage::kForward);
  if (setting.is_backward) prepared.differentiated = append_gradients(trial, prepared.graph);
  run(passes::Stage::kStep);
  run(passes::Stage::kTarget);
  return prepared;
}

record::BenchPoint plan_point(const cost::CostedGraph& costed, const cost::Ceilings* ceilings) {
  record::BenchPoint point;
  const cost::NodeCost sum = cost::total(costed.costs);
  point.inputs = operand_types(costed.graph);
  point.work = sum.work;
  point.launches = sum.launches;
  point.planned_bytes = sum.bytes();
  point.compulsory_bytes = cost::compulsory_bytes(costed, "");
  point.owned_bytes = costed.memory.owned_bytes();
  for (size_t i = 0; i < costed.costs.size(); ++i)
    if (costed.costs[i].launches > 0)
      point.kernels[costed.graph.nodes[i].op->name] += costed.costs[i].launches;
  if (ceilings != nullptr) predict(costed, 1, *ceilings, point);
  return point;
}

record::BenchPoint plan_trial(const TrialGraph& trial,
                              const TrialSetting& setting,
                              const passes::PassTarget& target,
                              const cost::Ceilings* ceilings) {
  record::BenchPoint point;
  try {
    Graph graph = prepare(trial, setting, target).graph;
    if (std::string why = unsupported(graph, target); !why.empty()) {
      point.inputs = operand_types(trial.graph);
      point.refused = why;
      return point;
    }
    return plan_point(cost::count(plan::plan(std::move(graph), target)), ceilings);
  } catch (const Error& error) {
    point.inputs = operand_types(trial.graph);
    point.refused = error.what();  // the op or the target does not support a type or shape
  }
  return point;
}

record::BenchPoint run_trial(const TrialGraph& trial,
                             const TrialSetting& setting,
                             backends::Backend& backend,
                             const cost::Ceilings* ceilings) {
  record::BenchPoint point = plan_trial(trial, setting, backend, ceilings);
  if (!point.refused.empty()) return point;
  const int64_t left = backend.available_bytes();
  int64_t most = setting.memory_bytes > 0 ? setting.memory_bytes : left - left / 8;
  if (most <= 0) most = std::numeric_limits<int64_t>::max() / 2;
  if (point.owned_bytes > most) {
    point.refused = fmt::format("needs {} of memory, {} are left", format_bytes(point.owned_bytes),
                                format_bytes(most));
    point.lacks_memory = true;
    return point;
  }
  try {
    if (setting.is_profiled) backend.instrument();  // its memory is not the graph's
    PreparedGraph prepared = prepare(trial, setting, backend);
    int64_t copies = 1;
    point.cache = "warm";
    if (setting.caches == Caches::kCold) {
      copies = cold_copies(cost::count(plan::plan(prepared.graph, backend)), ceilings, most);
      if (copies > 1) prepared.graph = copies_of(prepared.graph, copies);
      point.cache = fmt::format("cold: {} sets of operands in turn, {}", copies,
                                format_bytes(copies * point.owned_bytes));
    }
    measure::LaunchRate rate(backend, ceilings);
    std::optional<cost::CostedGraph> costed;  // where the plan's prediction does not hold
    if (ceilings != nullptr && (copies > 1 || rate.matters()))
      costed = cost::count(plan::plan(prepared.graph, backend));
    Running running(trial, std::move(prepared), backend);
    // A host that launches kernels one by one is faster or slower within seconds.
    point.time = running.time(setting, [&rate] { rate.sample(); });
    if (costed) predict(*costed, copies, ceilings_now(*ceilings, rate), point);
    const double n = static_cast<double>(copies);
    point.time.median /= n, point.time.low /= n, point.time.high /= n;
    if (setting.is_profiled && point.is_measured())
      point.profile = running.profile(setting, ceilings);
  } catch (const Error& error) {
    refuse(error.what(), error.code() == ExitCode::kOutOfMemory, point);
  } catch (const std::bad_alloc&) {
    refuse("out of memory", true, point);
  }
  return point;
}

}  // namespace ridge::bench
