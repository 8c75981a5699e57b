// SPDX-License-Identifier: Apache-2.0
// ridge bench model: tokens per second of prefill and decode, counted as llama-bench does.
// Not a subcommand.
#include "apps/bench_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>

#include "apps/bench_run.h"
#include "apps/inference_options.h"
#include "apps/machine_ceilings.h"
#include "apps/output_folder.h"
#include "backends/cpu/calibration/calibration.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/process_memory.h"
#include "base/samples.h"
#include "base/timed_work.h"
#include "base/units.h"
#include "cost/rate_limits.h"
#include "measure/inference_run.h"
#include "models/cache_shape.h"
#include "record/rate_shares.h"
#include "report/bench_files.h"
#include "report/operators_csv.h"
#include "report/rate_shares.h"

namespace ridge::apps {
namespace {

constexpr int64_t kMostRepeats = 10'000;
constexpr size_t kBriefRows = 8;  // of --operations, without --verbose

struct BenchModelOptions {
  InferenceOptions inference;
  std::string prompts = "512";
  std::string generated = "128";
  int64_t depth = 0;
  int64_t batch = 1;
  int64_t repeats = 5;
  bool random_weights = false;
  bool operations = false;
  bool verbose = false;
  std::string format = "table";
  OutputOptions output;
};

// One row: repeated runs of `tokens` for each sequence of the batch.
struct ModelTrial {
  std::string name;  // "pp512", "tg128"
  int64_t tokens = 0;
  bool is_decode = false;
  std::vector<double> rates;  // tokens per second
  record::RateShares shares;  // at the median rate
  // The bytes that are read between the repeats, the bandwidth of these reads, and the median share of
  // it that the repeats reach; 0 if not measured.
  int64_t beside_bytes = 0;
  double beside_bytes_per_ns = 0;
  double of_beside = 0;

  Summary summary() const { return summarize(rates); }
};

std::vector<int64_t> sizes(const std::string& text, const char* option) {
  return text == "0" ? std::vector<int64_t>() : parse_sizes(text, option);
}

class ModelBench {
 public:
  ModelBench(const BenchModelOptions& options, const AppContext& context)
      : o_(options), terminal_(context.terminal), command_(context.command) {
    prompts_ = sizes(o_.prompts, "prompt-tokens");
    generated_ = sizes(o_.generated, "tokens");
    if (prompts_.empty() && generated_.empty())
      throw usage_error("[bench] expected -p or -n above 0, got 0 for both");
    if (o_.repeats < 1 || o_.repeats > kMostRepeats)
      throw usage_error("[repeats] expected 1 to {}, got {}", kMostRepeats, o_.repeats);
    if (o_.batch < 1 || o_.batch > serve::kMostSlots)
      throw usage_error("[batch-size] expected 1 to {}, got {}", serve::kMostSlots, o_.batch);
    if (o_.depth < 0) throw usage_error("[depth] expected at least 0, got {}", o_.depth);
    check_text_format(o_.format);
  }

  void run() {
    std::optional<OutputFolder> folder = requested_folder(o_.output);
    double begin = now_ns();
    models::ModelFile file = o_.random_weights ? models::ModelFile::open_shape(o_.inference.model)
                                               : models::ModelFile::open(o_.inference.model);
    read_ns_ = now_ns() - begin;
    int64_t most = 1;
    for (int64_t each : prompts_) most = std::max(most, each);
    for (int64_t each : generated_) {
      if (__builtin_add_overflow(each, o_.depth, &each)) each = std::numeric_limits<int64_t>::max();
      most = std::max(most, each);
    }
    if (most > file.config().context)
      throw usage_error("[bench] expected at most {} positions, the model's context, got {}",
                        file.config().context, most);
    begin = now_ns();
    model_ = open_model(std::move(file), o_.inference, {.positions = most, .slots = o_.batch});
    open_ns_ = now_ns() - begin;
    ceilings_ = machine_ceilings(o_.inference.machine, false, terminal_);
    begin = now_ns();
    prefill(1);
    first_token_ns_ = now_ns() - begin;
    for (int64_t each : prompts_)
      trials_.push_back(
          trial(fmt::format("pp{}", each), each, false, [&] { return prefill(each); }));
    for (int64_t each : generated_) {
      std::string name =
          o_.depth > 0 ? fmt::format("tg{} @ d{}", each, o_.depth) : fmt::format("tg{}", each);
      trials_.push_back(trial(name, each, true, [&] { return decode(each); }));
    }
    if (folder) write(*folder);
    print();
    if (o_.operations) print_operations();
  }

 private:
  // Two warm-up runs come first: a GPU captures its graph in the second.
  ModelTrial trial(std::string name,
                   int64_t tokens,
                   bool is_decode,
                   const std::function<double()>& once) {
    ModelTrial trial{
        std::move(name), tokens, is_decode, {}, {}, is_decode ? beside_bytes() : 0, 0, 0};
    const std::function<void()> read =
        trial.beside_bytes > 0 ? backends::cpu::memory_reader(trial.beside_bytes) : nullptr;
    once();
    once();
    std::vector<double> read_rates;  // before, between and after the repeats
    const auto measure_read = [&] {
      if (read) read_rates.push_back(static_cast<double>(trial.beside_bytes) / median_ns(read));
    };
    measure_read();
    for (int64_t i = 0; i < o_.repeats; ++i) {
      trial.rates.push_back(static_cast<double>(tokens * o_.batch) * 1e9 / once());
      measure_read();
    }
    record::RatedWork work = counted(once);
    if (is_decode) work.cache_bytes = decoded_cache_bytes(tokens);
    work.ns = static_cast<double>(tokens * o_.batch) * 1e9 / trial.summary().median;
    trial.shares = record::rate_shares(work, ceilings_);
    if (read) add_shares_of(read_rates, trial);
    return trial;
  }

  // The bytes that are read to measure the bandwidth beside a decode: as many as the weights, within
  // limits. 0 if the device measures none, or if they are not clear of the caches.
  int64_t beside_bytes() const {
    constexpr int64_t kMost = int64_t{512} << 20;
    const int64_t weights = model_->file.weight_bytes();
    if (chosen_device(o_.inference.machine) != "cpu") return 0;
    for (const cost::MemoryLevel& level : ceilings_.levels)
      if (level.name != "memory" && weights < 2 * level.capacity_bytes) return 0;
    const int64_t bytes = std::min(weights, kMost);
    return bytes <= available_memory_bytes() / 4 ? bytes : 0;
  }

  // Of a few reads.
  static double median_ns(const std::function<void()>& read) {
    constexpr int kReads = 5;
    std::vector<double> ns;
    for (int i = 0; i < kReads; ++i) ns.push_back(timed_ns(read));
    return summarize(ns).median;
  }

  // A repeat is compared with the reads just before and just after it.
  static void add_shares_of(const std::vector<double>& read_rates, ModelTrial& trial) {
    const double bytes_per_token = trial.shares.bytes_per_ns / trial.summary().median;
    std::vector<double> shares;
    for (size_t i = 0; i < trial.rates.size(); ++i)
      shares.push_back(trial.rates[i] * bytes_per_token * 2 / (read_rates[i] + read_rates[i + 1]));
    trial.beside_bytes_per_ns = summarize(read_rates).median;
    trial.of_beside = summarize(shares).median;
  }

  // What the timed part of `once` multiplies and reads, from the graphs that it runs.
  record::RatedWork counted(const std::function<double()>& once) {
    model_->session->observe(&runs_);
    once();
    model_->session->observe(nullptr);
    std::map<const serve::Bucket*, int64_t> counts;
    for (const serve::SessionRun& run : runs_) ++counts[run.bucket];
    record::RatedWork work;
    for (const auto& [bucket, count] : counts) {
      const cost::TypedAmounts each = cost::typed_amounts(*bucket->program().graph(0).costed);
      work.amounts += cost::times(count, each);
      work.weight_bytes = std::max(work.weight_bytes, each.all_weight_bytes());
    }
    return work;
  }

  // The attended KV entries of the timed steps of decode().
  int64_t decoded_cache_bytes(int64_t tokens) const {
    int64_t bytes = 0;
    for (int64_t i = 0; i < tokens; ++i)
      bytes += o_.batch * models::seen_bytes(model_->file.config(), o_.depth + i + 1,
                                             *model_->session->options().cache_dtype);
    return bytes;
  }

  std::vector<int32_t> start(int64_t tokens) {
    std::vector<std::vector<int32_t>> ids;
    std::vector<serve::Prompt> prompts;
    for (int64_t slot = 0; slot < o_.batch; ++slot)
      ids.push_back(measure::random_ids(tokens, model_->file.config().vocabulary,
                                        static_cast<uint32_t>(slot) + 1));
    for (int64_t slot = 0; slot < o_.batch; ++slot)
      prompts.push_back({slot, ids[static_cast<size_t>(slot)], {}});
    runs_.clear();
    first_.clear();
    begin_ns_ = now_ns();
    return model_->session->start(prompts);
  }

  // The first tokens after the KV entries of --depth. Entries that an earlier call left are kept.
  std::vector<int32_t> start_at_depth() {
    const int64_t depth = std::max<int64_t>(o_.depth, 1);
    bool are_held = !first_.empty() && o_.depth > 0;
    for (int64_t slot = 0; slot < o_.batch; ++slot)
      are_held = are_held && model_->session->reusable(slot, depth) == depth;
    if (!are_held)
      first_ = start(depth);
    else
      for (int64_t slot = 0; slot < o_.batch; ++slot) model_->session->rewind(slot, depth);
    return first_;
  }

  double prefill(int64_t tokens) {
    start(tokens);
    return now_ns() - begin_ns_;
  }

  // Decodes each token by itself, including the first.
  double decode(int64_t tokens) {
    std::vector<int32_t> last = start_at_depth();
    std::vector<int64_t> slots;
    for (int64_t slot = 0; slot < o_.batch; ++slot) slots.push_back(slot);
    if (o_.depth > 0) runs_.clear(), begin_ns_ = now_ns();
    for (int64_t i = o_.depth > 0 ? 0 : 1; i < tokens; ++i) model_->session->step(slots, last);
    return now_ns() - begin_ns_;
  }

  // The kernels by op in the last of three instrumented runs, of each prompt length and of a decode
  // step.
  void print_operations() {
    std::vector<serve::SessionRun> runs;
    auto observed = [&](const std::function<void()>& run) {
      runs.clear();
      model_->session->observe(&runs);
      for (int i = 0; i < 3; ++i) run();
      model_->session->observe(nullptr);
    };
    for (int64_t each : prompts_) {
      observed([&] { start(each); });
      const int64_t chunk = o_.inference.chunk, last = (each - 1) % chunk + 1;
      print_run(each <= chunk ? fmt::format("the last run of a {}-token prompt", each)
                              : fmt::format("the last {} of {} prompt tokens", last, each),
                runs.back());
    }
    if (generated_.empty()) return;
    std::vector<int32_t> last = start_at_depth();
    std::vector<int64_t> slots;
    for (int64_t slot = 0; slot < o_.batch; ++slot) slots.push_back(slot);
    observed([&] { model_->session->step(slots, last); });
    print_run("a decode step", runs.back());
  }

  // An overlapping kernel counts from the end of the one before it.
  void print_run(const std::string& what, const serve::SessionRun& run) const {
    const record::ProfiledRun& profile = run.profile;
    const Graph& graph = run.bucket->program().graph(0).graph();
    struct Sum {
      int64_t kernels = 0;
      double ns = 0;
    };
    std::map<std::string, Sum> sums;
    double kernel_ns = 0, ended_ns = 0;
    for (const record::Span& span : profile.spans) {
      const Node& node = graph.node(span.node);
      std::string name = node.op->name;
      if (node.inputs.size() > 1 && graph.value(node.inputs[1]).storage == Storage::kParameter)
        name += " by " + graph.shape(node.inputs[1]).str();
      Sum& sum = sums[name];
      double exclusive_ns = std::max(0.0, span.end_ns - std::max(span.begin_ns, ended_ns));
      ++sum.kernels;
      sum.ns += exclusive_ns;
      kernel_ns += exclusive_ns;
      ended_ns = std::max(ended_ns, span.end_ns);
    }
    std::vector<std::pair<std::string, Sum>> sorted(sums.begin(), sums.end());
    std::ranges::stable_sort(sorted, std::ranges::greater(),
                             [](const auto& each) { return each.second.ns; });
    Table table({{"operation", Align::kLeft}, {"kernels"}, {"time"}});
    Sum rest;
    for (size_t i = 0; i < sorted.size(); ++i) {
      const Sum& sum = sorted[i].second;
      if (o_.verbose || i < kBriefRows) {
        table.add({sorted[i].first, std::to_string(sum.kernels), format_ns(sum.ns)});
      } else {
        rest.kernels += sum.kernels;
        rest.ns += sum.ns;
      }
    }
    if (rest.kernels > 0)
      table.add({fmt::format("({} more)", sorted.size() - kBriefRows), std::to_string(rest.kernels),
                 format_ns(rest.ns)});
    fmt::print("\n{}\n", table_text(table));
    print_lines(fmt::format("{}: {} in kernels, {} wall time", what, format_ns(kernel_ns),
                            format_ns(profile.wall_ns)));
  }

  std::string table_text(const Table& table) const {
    return o_.format == "table" ? table.text(terminal_) : table.markdown();
  }

  void print_lines(const std::string& text) const {
    fmt::print("{}", wrap_lines(text, terminal_.columns));
  }

  report::Json heading() const {
    record::Setting setting =
        make_setting(model_->file.path().stem().string(), o_.inference.machine,
                     model_->session->options().selection, o_.inference.level.switches);
    return {{"program", kProgram},
            {"model", setting.model},
            {"format", o_.random_weights        ? "random weights"
                       : model_->file.is_gguf() ? "GGUF"
                                                : "safetensors"},
            {"size_bytes", model_->file.weight_bytes()},
            {"parameters", model_->file.config().parameters()},
            {"device", setting.device},
            {"isa", setting.isa},
            {"threads", setting.threads},
            {"level", setting.level},
            {"dtype", setting.dtype},
            {"activations", o_.inference.exact       ? "exact"
                            : o_.inference.fast_8bit ? "8 bits"
                                                     : "fast"},
            {"cache_dtype", cache_dtype_name(*model_->session->options().cache_dtype)},
            {"batch", o_.batch},
            {"read_ms", read_ns_ / 1e6},
            {"open_ms", open_ns_ / 1e6},
            {"first_token_ms", first_token_ns_ / 1e6},
            {"owned_bytes", model_->session->owned_bytes()}};
  }

  report::Json result() const {
    report::Json about = heading();
    about["multiply_share_convention"] = record::kMultiplyShareConvention;
    about["read_share_convention"] = record::kReadShareConvention;
    for (const ModelTrial& t : trials_) {
      Summary s = t.summary();
      const auto known = [](double value) {
        return value > 0 ? report::Json(value) : report::Json();
      };
      about["tests"].push_back({{"test", t.name},
                                {"tokens", t.tokens},
                                {"tokens_per_s", s.median},
                                {"low", s.low},
                                {"high", s.high},
                                {"coverage", s.coverage},
                                {"samples", t.rates},
                                {"read_beside_bytes_per_s", known(t.beside_bytes_per_ns * 1e9)},
                                {"of_read_beside", known(t.of_beside)},
                                {"rate_shares", report::to_json(t.shares, t.is_decode)}});
    }
    return about;
  }

  void write(OutputFolder& folder) const {
    record::LabRecord about;
    about.program = kProgram;
    about.command = command_;
    about.finished_at = utc_now();
    folder.commit(report::bench_files(about, "model", result()));
  }

  void print() const {
    report::Json about = heading();
    auto text = [&](const char* key) { return about[key].get<std::string>(); };
    if (o_.format == "json") {
      fmt::print("{}", report::json_text(result()));
      return;
    }
    if (o_.format == "csv") return print_csv(about);
    Table table({{"model", Align::kLeft},
                 {"size", Align::kRight, 3},
                 {"params", Align::kRight, 4},
                 {"device", Align::kLeft, 1},
                 {"threads", Align::kRight, 2},
                 {"test"},
                 {"tokens/s"},
                 {"95% interval"}});
    for (const ModelTrial& t : trials_) {
      Summary s = t.summary();
      table.add(
          {terminal_safe(text("model")), format_bytes(about["size_bytes"].get<int64_t>()),
           format_count(about["parameters"].get<double>()), text("device") + " " + text("isa"),
           std::to_string(about["threads"].get<int>()), t.name, fmt::format("{:.2f}", s.median),
           s.count < 2 ? "-"
                       : fmt::format("{:.2f} - {:.2f}{}", s.low, s.high,
                                     s.coverage < 0.95 ? fmt::format(" ({:.0f}%)", 100 * s.coverage)
                                                       : "")});
    }
    fmt::print("{}\n", table_text(table));
    print_lines(fmt::format(
        "level {}{}, KV cache in {}, batch {}; read the file in {}, opened a session in {}; first "
        "token of a one-token prompt in {}; owned memory {}",
        text("level"),
        o_.inference.exact       ? " with --exact"
        : o_.inference.fast_8bit ? " with --fast-8bit"
                                 : "",
        text("cache_dtype"), o_.batch, format_ns(read_ns_), format_ns(open_ns_),
        format_ns(first_token_ns_), format_bytes(about["owned_bytes"].get<int64_t>())));
    print_shares();
  }

  void print_csv(const report::Json& about) const {
    fmt::print(
        "model,size_bytes,parameters,device,isa,threads,batch,test,tokens_per_s,low,high,coverage,"
        "samples,ops_per_s,of_theoretical,of_multiply_only,bytes_per_s,mbu,of_unpack_or_read,"
        "read_beside_bytes_per_s,of_read_beside\n");
    for (const ModelTrial& t : trials_) {
      const Summary s = t.summary();
      const report::Json shares = report::to_json(t.shares, t.is_decode);
      fmt::print("{},{},{},{},{},{},{},{},{:.3f},{:.3f},{:.3f},{:.4f},{}",
                 report::csv_field(about["model"].get<std::string>()),
                 about["size_bytes"].get<int64_t>(), about["parameters"].get<int64_t>(),
                 about["device"].get<std::string>(), about["isa"].get<std::string>(),
                 about["threads"].get<int>(), o_.batch, t.name, s.median, s.low, s.high, s.coverage,
                 s.count);
      for (const char* key : {"ops_per_s", "of_theoretical", "of_multiply_only", "bytes_per_s",
                              "mbu", "of_unpack_or_read"}) {
        const auto found = shares.find(key);
        const bool is_known = found != shares.end() && found->is_number();
        fmt::print(",{}", is_known ? fmt::format("{:.6g}", found->get<double>()) : "");
      }
      for (double value : {t.beside_bytes_per_ns * 1e9, t.of_beside})
        fmt::print(",{}", value > 0 ? fmt::format("{:.6g}", value) : "");
      fmt::print("\n");
    }
  }

  void print_shares() const {
    std::vector<Table::Column> columns = report::shares_columns();
    columns.insert(columns.begin(), {"test", Align::kLeft});
    Table table(std::move(columns));
    std::vector<report::PhaseShares> all;
    for (const ModelTrial& t : trials_) {
      all.push_back({t.is_decode, t.shares});
      std::vector<std::string> cells = report::shares_cells(t.shares, t.is_decode);
      cells.insert(cells.begin(), t.name);
      table.add(std::move(cells));
    }
    fmt::print("\n{}\n", table_text(table));
    print_lines(report::shares_note(all, ceilings_));
    for (const ModelTrial& t : trials_)
      if (t.of_beside > 0)
        print_lines(fmt::format(
            "{}: {:.1f}% of what reading {} of memory reached between the repeats ({}).", t.name,
            100 * t.of_beside, format_bytes(t.beside_bytes),
            format_rate(t.beside_bytes_per_ns * 1e9, "B/s")));
  }

  const BenchModelOptions& o_;
  const TerminalOptions& terminal_;
  const std::string& command_;
  std::vector<int64_t> prompts_, generated_;
  cost::Ceilings ceilings_;
  std::unique_ptr<OpenModel> model_;
  std::vector<serve::SessionRun>
      runs_;                    // since the timed part began, while the session is observed
  std::vector<int32_t> first_;  // what the prompts of start_at_depth() gave, while these are held
  std::vector<ModelTrial> trials_;
  double read_ns_ = 0, open_ns_ = 0, first_token_ns_ = 0, begin_ns_ = 0;
};

}  // namespace

void add_bench_model(Command bench, const AppContext& context) {
  auto o = std::make_shared<BenchModelOptions>();
  Command app =
      bench.add_subcommand("model", "Time prefill and decode of a model file, as llama-bench does");
  app.add_option("-p,--prompt-tokens", o->prompts, "comma-separated prompt lengths (0: no prefill)")
      .numbers()
      .show_default();
  app.add_option("-n,--tokens", o->generated,
                 "comma-separated numbers of tokens to generate (0: no decode)")
      .numbers()
      .show_default();
  app.add_option("-d,--depth", o->depth, "KV entries before the first generated token")
      .show_default();
  app.add_option("-b,--batch-size", o->batch, "sequences at a time").show_default();
  app.add_option("-r,--repeats", o->repeats, "measured runs per test, after two warm-up runs")
      .show_default();
  app.add_flag("--random-weights", o->random_weights,
               "use random bf16 weights; MODEL is then a config.json or its folder");
  app.add_flag("--operations", o->operations,
               "also print kernel times by op, of a prefill per prompt length and a decode step");
  app.add_verbose_flag(o->verbose);
  add_text_format_option(app, o->format);
  add_output_options(app, o->output, "folder for bench.json and report.html");
  app.add_option("-t", o->inference.machine.threads, "same as --threads");
  add_inference_options(app, o->inference);
  app.footer(
      "Examples:\n"
      "  ridge bench model gemma-3-270m-q4_k_m.gguf -p 512 -n 128\n"
      "  ridge bench model model/ -p 128,512 -n 0 --device cpu -t 1 --format json\n"
      "  ridge bench model llama-2-7b/config.json --random-weights --device cuda -p 2048 -n 64");
  app.callback([o, app, &context] {
    app.refuse_unused({without_folder(o->output),
                       {o->inference.json, "with --json", {"--format", "--operations"}},
                       {o->format == "csv" || o->format == "json",
                        "with --format " + o->format,
                        {"--operations"}},
                       {!o->operations, "without --operations", {"--verbose"}},
                       {app.given("-t"), "with -t", {"--threads"}},
                       {o->generated == "0", "without generated tokens (-n 0)", {"--depth"}}});
    if (o->inference.json) o->format = "json";
    ModelBench(*o, context).run();
  });
}

}  // namespace ridge::apps
