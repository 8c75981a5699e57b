// SPDX-License-Identifier: Apache-2.0
// Plans sessions and prints the plans as tables or JSON. Not a subcommand.
#include "apps/plan_inference.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "apps/inference_options.h"
#include "apps/plan_place.h"
#include "base/error.h"
#include "base/units.h"
#include "cost/predict.h"
#include "cost/resource_plan.h"
#include "measure/inference_plan.h"
#include "record/lab_record.h"
#include "report/json_text.h"

namespace ridge::apps {
namespace {

using nlohmann::ordered_json;

// The largest batch that fits at a length, and its decode time.
struct LargestBatch {
  int64_t length = 0;
  int64_t batch = 0;
  double tpot_ns = 0;
};
struct LongestContext {
  int64_t batch = 0;
  int64_t length = 0;
};

class InferencePlanner {
 public:
  InferencePlanner(const PlanRequest& request,
                   const InferencePlanOptions& o,
                   const TerminalOptions& terminal)
      : request_(request),
        o_(o),
        terminal_(terminal),
        file_(open()),
        selection_(inference_selection(is_gpu_plan(request.hardware, request.machine),
                                       o.exact,
                                       o.fast_8bit,
                                       request.level.level,
                                       request.level.switches)),
        cache_dtype_(chosen_cache_dtype(o.cache_dtype,
                                        is_gpu_plan(request.hardware, request.machine),
                                        o.exact,
                                        selection_)),
        place_(choose_place(request.hardware, request.machine, selection_, terminal)) {
    expect_effect(request.level.switches, passes::Serves::kInference, *place_.planned);
    batches_ = request.batch_sizes.empty() ? std::vector<int64_t>{1, 8, 32}
                                           : parse_sizes(request.batch_sizes, "batch-size");
    lengths_ = request.lengths.empty() ? usual_lengths() : parse_sizes(request.lengths, "seq-len");
    for (int64_t batch : batches_)
      if (batch > serve::kMostSlots)
        throw usage_error("[batch-size] expected at most {} sequences, got {}", serve::kMostSlots,
                          batch);
    for (int64_t length : lengths_)
      if (length > file_.config().context)
        throw usage_error("[seq-len] expected at most {} positions, the model's context, got {}",
                          file_.config().context, length);
  }

  void run() {
    for (int64_t length : lengths_)
      for (int64_t batch : batches_) plans_.push_back(plan(batch, length));
    find_largest();
    if (request_.json)
      print_json();
    else
      print_text();
  }

 private:
  models::ModelFile open() {
    if (!o_.model.empty()) {
      name_ = std::filesystem::path(o_.model).stem().string();
      return models::ModelFile::open(o_.model);
    }
    ModelChoice choice = choose_model(request_.model);
    name_ = choice.name;
    return models::ModelFile::of_shape(choice.config);
  }

  std::vector<int64_t> usual_lengths() const {
    const int64_t context = file_.config().context;
    std::vector<int64_t> lengths;
    for (int64_t length : {128, 512, 2048})
      if (length < context) lengths.push_back(length);
    if (lengths.size() < 3) lengths.push_back(context);
    return lengths;
  }

  measure::InferenceExperiment experiment(int64_t batch, int64_t length) const {
    measure::InferenceExperiment e;
    e.selection = selection_;
    e.setting = make_setting(name_, request_.machine, selection_, request_.level.switches);
    e.setting.device = place_.target;
    e.batch = batch;
    e.length = length;
    e.chunk = o_.chunk;
    e.cache_dtype = cache_dtype_;
    return e;
  }

  DType cache_dtype() const { return cache_dtype_.value_or(selection_.activations()); }

  measure::PhasePlan plan(int64_t batch, int64_t length) const {
    return measure::plan_phases(file_, experiment(batch, length), *place_.planned,
                                &place_.ceilings);
  }

  int64_t owned_bytes(int64_t batch, int64_t length, Progress& progress) const {
    progress.tick(1, fmt::format("{} x {}", batch, length));
    return measure::session_bytes(file_, experiment(batch, length), *place_.planned);
  }

  void find_largest() {
    if (place_.memory_bytes <= 0) return;
    Progress progress("what fits", 0, "plans", terminal_);
    for (int64_t length : lengths_) {
      LargestBatch largest{length, 0, 0};
      largest.batch = cost::largest_fitting(
          place_.memory_bytes, serve::kMostSlots,
          [&](int64_t batch) { return owned_bytes(batch, length, progress); });
      if (largest.batch > 0)
        largest.tpot_ns = plan(largest.batch, length).records.decode.predicted_ns;
      largest_.push_back(largest);
    }
    for (int64_t batch : batches_)
      longest_.push_back(
          {batch,
           cost::largest_fitting(place_.memory_bytes, file_.config().context, [&](int64_t length) {
             return owned_bytes(batch, length, progress);
           })});
  }

  cost::ReferenceRate peak(const record::RunRecord& run) const {
    return place_.ceilings.mfu_reference(record::product_dtype(run.setting));
  }
  double mfu(const record::RunRecord& run) const { return run.mfu(peak(run)); }
  double mbu(const record::RunRecord& run) const {
    return run.mbu(place_.ceilings.mbu_reference());
  }
  // The larger of the class's peaks in prefill and decode, for each class.
  static plan::MemoryMoment class_peaks(const measure::PhasePlan& plan) {
    plan::MemoryMoment peaks = plan.records.prefill.memory.class_peaks();
    const plan::MemoryMoment other = plan.records.decode.memory.class_peaks();
    for (int i = 0; i < plan::kMemoryClasses; ++i)
      peaks.bytes[i] = std::max(peaks.bytes[i], other.bytes[i]);
    return peaks;
  }

  using TypeBytes = std::map<DType, int64_t>;

  // The bytes of the model file's tensors by type; empty for a shape.
  TypeBytes file_bytes() const {
    TypeBytes bytes;
    if (!file_.has_weights()) return bytes;
    for (const files::FileTensor& tensor : file_.tensors().all())
      bytes[tensor.dtype] += static_cast<int64_t>(tensor.bytes.size());
    return bytes;
  }

  // "q4_1 and f32", largest first
  static std::string types_text(const TypeBytes& bytes) {
    std::vector<std::pair<int64_t, DType>> order;
    for (const auto& [dtype, size] : bytes) order.push_back({-size, dtype});
    std::sort(order.begin(), order.end());
    std::string text;
    for (size_t i = 0; i < order.size(); ++i)
      text += (i == 0                 ? ""
               : i + 1 < order.size() ? ", "
                                      : " and ") +
              std::string(name(order[i].second));
    return text;
  }

  std::string weights_text() const {
    std::string text = "weights held in " + types_text(plans_.front().held_bytes);
    if (file_.has_weights()) text += "; in the file " + types_text(file_bytes());
    return text + "\n";
  }

  static ordered_json types_json(const TypeBytes& bytes) {
    ordered_json json = ordered_json::object();
    for (const auto& [dtype, size] : bytes) json[std::string(name(dtype))] = size;
    return json;
  }

  ordered_json phase_json(const record::RunRecord& run) const {
    return {{"predicted_ns", run.predicted_ns},
            {"tokens_per_s", run.tokens_per_s()},
            {"dtype", run.setting.dtype},
            {"mfu", mfu(run)},
            {"mfu_peak", report::to_json(peak(run))},
            {"mbu", mbu(run)},
            {"mbu_reason", run.mbu_reason(place_.ceilings)},
            {"model_flops", run.model.step().flops},
            {"model_macs", run.model.step().macs},
            {"executed_flops", run.executed.flops},
            {"planned_bytes", run.planned_bytes},
            {"compulsory_bytes", run.compulsory_bytes},
            {"weight_bytes", run.weight_bytes},
            {"cache_bytes", run.cache_bytes},
            {"kernel_calls", run.launches}};
  }

  void print_json() const {
    ordered_json json{{"model", name_},
                      {"parameters", file_.config().parameters()},
                      {"level", selection_.level()},
                      {"chunk", o_.chunk},
                      {"cache_dtype", cache_dtype_name(cache_dtype())},
                      {"hardware", place_.title},
                      {"hardware_source", place_.source},
                      {"assumptions", place_.ceilings.notes},
                      {"memory_capacity_bytes", place_.memory_bytes},
                      {"file_bytes", types_json(file_bytes())},
                      {"held_bytes", types_json(plans_.front().held_bytes)},
                      {"mfu_convention", record::kMfuConvention},
                      {"mbu_convention", record::kMbuConvention},
                      {"mbu_peak", report::to_json(place_.ceilings.mbu_reference())},
                      {"plans", ordered_json::array()},
                      {"largest_batches", ordered_json::array()},
                      {"longest_contexts", ordered_json::array()}};
    for (const measure::PhasePlan& each : plans_) {
      const record::Setting& setting = each.records.prefill.setting;
      json["plans"].push_back(
          {{"batch_size", setting.batch_size},
           {"sequence", setting.sequence},
           {"prefill", phase_json(each.records.prefill)},
           {"decode", phase_json(each.records.decode)},
           {"owned_bytes", each.owned_bytes},
           {"class_peak_bytes", report::memory_classes_json(class_peaks(each).bytes)}});
    }
    for (const LargestBatch& each : largest_)
      json["largest_batches"].push_back({{"sequence", each.length},
                                         {"batch_size", each.batch},
                                         {"predicted_decode_ns", each.tpot_ns}});
    for (const LongestContext& each : longest_)
      json["longest_contexts"].push_back({{"batch_size", each.batch}, {"sequence", each.length}});
    fmt::print("{}", report::json_text(json));
  }

  static std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

  std::string owned_text(const measure::PhasePlan& each) const {
    const bool fits = place_.memory_bytes <= 0 || each.owned_bytes <= place_.memory_bytes;
    return format_bytes(each.owned_bytes) + (fits ? "" : ", does not fit");
  }

  void print_times() const {
    Table table({{"batch"},
                 {"length"},
                 {"TTFT"},
                 {"prefill tokens/s", Align::kRight, 2},
                 {"MFU"},
                 {"TPOT"},
                 {"decode tokens/s", Align::kRight, 1},
                 {"MBU"},
                 {"owned memory", Align::kRight, 3}});
    for (const measure::PhasePlan& each : plans_) {
      const record::RunRecord &prefill = each.records.prefill, &decode = each.records.decode;
      table.add({std::to_string(prefill.setting.batch_size),
                 std::to_string(prefill.setting.sequence), format_ns(prefill.predicted_ns),
                 format_count(prefill.tokens_per_s()), percent(mfu(prefill)),
                 format_ns(decode.predicted_ns), format_count(decode.tokens_per_s()),
                 percent(mbu(decode)), owned_text(each)});
    }
    const record::RunRecord& first = plans_.front().records.prefill;
    std::string notes = fmt::format("MFU of prefill {}.\nMBU of decode {}.\n",
                                    peak(first).str("FLOP/s", first.setting.dtype),
                                    place_.ceilings.mbu_reference().str("B/s", ""));
    std::set<std::string> reasons;
    for (const measure::PhasePlan& each : plans_)
      reasons.insert(each.records.decode.mbu_reason(place_.ceilings));
    reasons.erase("");
    if (!reasons.empty()) notes += fmt::format("MBU over 100%: {}.\n", fmt::join(reasons, "; "));
    if (const std::string_view left_out = cost::left_out_of_inference(place_.ceilings);
        !left_out.empty())
      notes += fmt::format("{}\n", left_out);
    fmt::print("{}\n{}\n", table.text(terminal_), wrap_lines(notes, terminal_.columns));
  }

  void print_memory() const {
    std::vector<plan::MemoryClass> shown;
    for (int i = 0; i < plan::kMemoryClasses; ++i)
      if (std::any_of(plans_.begin(), plans_.end(),
                      [&](const auto& each) { return class_peaks(each).bytes[i] > 0; }))
        shown.push_back(static_cast<plan::MemoryClass>(i));
    std::vector<Table::Column> columns{{"batch"}, {"length"}};
    // The smallest classes are left out first.
    auto largest = [&](plan::MemoryClass each) {
      int64_t bytes = 0;
      for (const measure::PhasePlan& plan : plans_)
        bytes = std::max(bytes, class_peaks(plan).bytes[static_cast<size_t>(each)]);
      return bytes;
    };
    std::vector<plan::MemoryClass> order = shown;
    std::stable_sort(order.begin(), order.end(), [&](plan::MemoryClass a, plan::MemoryClass b) {
      return largest(a) > largest(b);
    });
    for (plan::MemoryClass each : shown) {
      const auto rank = std::find(order.begin(), order.end(), each) - order.begin();
      columns.push_back({std::string(name(each)), Align::kRight, static_cast<int>(rank) + 1});
    }
    columns.push_back({"owned"});
    Table table(std::move(columns));
    for (const measure::PhasePlan& each : plans_) {
      const record::Setting& setting = each.records.prefill.setting;
      std::vector<std::string> row{std::to_string(setting.batch_size),
                                   std::to_string(setting.sequence)};
      for (plan::MemoryClass kind : shown)
        row.push_back(format_bytes(class_peaks(each).bytes[static_cast<size_t>(kind)]));
      row.push_back(owned_text(each));
      table.add(std::move(row));
    }
    fmt::print("{}\n", table.text(terminal_));
  }

  void print_text() const {
    const record::RunRecord& decode = plans_.front().records.decode;
    std::string heading =
        fmt::format("{} at level {}: {} parameters, {} of weights, on {}\nsource: {}\n",
                    terminal_safe(name_), selection_.level(),
                    format_integer(file_.config().parameters()), format_bytes(decode.weight_bytes),
                    terminal_safe(place_.title), terminal_safe(place_.source, kLongestMessage));
    heading += weights_text();
    if (request_.verbose)
      for (const std::string& note : place_.ceilings.notes)
        heading += terminal_safe(note, kLongestMessage) + "\n";
    heading += fmt::format(
        "GEMMs in {} (prefill) and {} (decode), KV cache in {}, prefill chunks of {} tokens\n",
        plans_.front().records.prefill.setting.dtype, decode.setting.dtype,
        cache_dtype_name(cache_dtype()), o_.chunk);
    fmt::print("{}\n", wrap_lines(heading, terminal_.columns));
    print_times();
    if (request_.verbose) print_memory();
    std::string answers;
    for (const LargestBatch& each : largest_)
      answers += fmt::format(
          "largest batch at length {} in {}: {}{}{}\n", each.length,
          format_bytes(place_.memory_bytes), each.batch,
          each.batch == serve::kMostSlots ? " (the most that a session holds)" : "",
          each.batch > 0
              ? fmt::format(", {} per step, {} tokens/s", format_ns(each.tpot_ns),
                            format_count(static_cast<double>(each.batch) * 1e9 / each.tpot_ns))
              : "");
    for (const LongestContext& each : longest_)
      answers +=
          fmt::format("longest context for {} sequence{}: {} (the model's is {})\n", each.batch,
                      each.batch == 1 ? "" : "s", each.length, file_.config().context);
    fmt::print("{}", wrap_lines(answers, terminal_.columns));
  }

  const PlanRequest& request_;
  const InferencePlanOptions& o_;
  const TerminalOptions& terminal_;
  std::string name_;
  models::ModelFile file_;
  passes::Selection selection_;
  std::optional<DType> cache_dtype_;
  Place place_;
  std::vector<int64_t> batches_, lengths_;
  std::vector<measure::PhasePlan> plans_;
  std::vector<LargestBatch> largest_;
  std::vector<LongestContext> longest_;
};

}  // namespace

void add_inference_plan_options(Command app, InferencePlanOptions& o) {
  app = app.under("Inference");
  app.add_flag(
      "--inference", o.inference,
      "plan prefill and decode instead of training; --batch-size (default: 1,8,32) and "
      "--seq-len then take lists. A length is that of the prompt (prefill) and of the "
      "context (decode); default: 128,512,2048, or less if the model's context is shorter");
  app.add_option("--model", o.model,
                 "plan inference with this model file or folder, its weights in the types in which "
                 "ridge generate holds them: those of the file on a CPU, bf16 on a GPU (fp32 with "
                 "--exact)");
  add_phase_options(app, o.chunk, o.exact, o.fast_8bit, o.cache_dtype);
}

void plan_inference(const PlanRequest& request,
                    const InferencePlanOptions& options,
                    const TerminalOptions& terminal) {
  InferencePlanner(request, options, terminal).run();
}

}  // namespace ridge::apps
