// SPDX-License-Identifier: Apache-2.0
// Texts of ridge explain on passes and on the nodes of a step.
#include "planning/explain_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "backends/null/null_backend.h"
#include "base/split.h"
#include "cost/hardware.h"
#include "files/scratch.h"
#include "models/llama_shape.h"
#include "planning/step_plan.h"

namespace ridge::planning {
namespace {

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

int64_t count(const std::string& text, std::string_view part) {
  int64_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
  return found;
}

TEST(PassList, HasALineForEachPassAndOption) {
  const std::string text = pass_list_text(100);
  EXPECT_TRUE(
      text.starts_with("pass                        stage    backend  used for   level\n"
                       "lora                        forward  all      training   -\n"
                       "    freeze the model and train low-rank adapters of projections "
                       "(--lora-rank, --lora-targets)\n"
                       "    trade-off: trains fewer parameters: "))
      << text;
  // A pass of each backend, which that backend has; one without a trade-off.
  EXPECT_TRUE(has(text,
                  "\nfuse_gate_up                forward  cpu      inference  kernels\n"
                  "    compute gate, up and their GLU in one kernel, with quantized weights\n"
                  "expand                      forward  all      both       baseline\n"));
  EXPECT_TRUE(has(text, "\nfuse_rope_append            step     cuda     inference  kernels\n"));
  EXPECT_TRUE(has(text,
                  "\n\n--pass also switches these options, which do not change the graph:\n"
                  "tune_gemm                                                compiled\n"
                  "    choose each GEMM's algorithm by timing\n"));
  EXPECT_TRUE(has(text,
                  "\ntf32                                                     -\n"
                  "    GPU: round the fp32 inputs of GEMMs to TF32 (--dtype tf32)\n"));
  for (const passes::Listed& line : passes::list())
    EXPECT_EQ(count(text, "\n" + std::string(line.name) + " "),
              std::ranges::count(passes::list(), line.name, &passes::Listed::name))
        << line.name;
  for (const passes::Option& option : passes::options())
    EXPECT_EQ(count(text, "\n" + std::string(option.name) + " "), 1) << option.name;
}

TEST(PassList, IsNoWiderThanItsColumns) {
  const auto widest = [](int columns) {
    size_t most = 0;
    for (const std::string& line : split(pass_list_text(columns), '\n'))
      if (line.starts_with("    ")) most = std::max(most, line.size());
    return most;
  };
  EXPECT_LE(widest(60), 60u);
  EXPECT_GT(widest(100), 90u);
  EXPECT_LE(widest(100), 100u);
}

TEST(PassList, IsTheSameInJson) {
  const auto json = nlohmann::json::parse(pass_list_json());
  ASSERT_EQ(json.size(), passes::list().size());
  const auto find = [&](std::string_view name) {
    return *std::ranges::find_if(json, [&](const auto& each) { return each["pass"] == name; });
  };
  const auto first = json[0];
  EXPECT_EQ(first["pass"], "lora");
  EXPECT_EQ(first["stage"], "forward");
  EXPECT_EQ(first["backend"], "all");
  EXPECT_EQ(first["serves"], "training");
  EXPECT_TRUE(first["level"].is_null());
  EXPECT_TRUE(first["summary"].get<std::string>().starts_with("freeze the model and train"));
  EXPECT_TRUE(first["trade"].get<std::string>().starts_with("trains fewer parameters: "));
  const auto fused = find("fuse_rope_append");
  EXPECT_EQ(fused["stage"], "step");
  EXPECT_EQ(fused["backend"], "cuda");
  EXPECT_EQ(fused["serves"], "inference");
  EXPECT_EQ(fused["level"], "kernels");
  EXPECT_EQ(fused["trade"], "");
  EXPECT_EQ(find("expand")["serves"], "both");
  EXPECT_EQ(find("fuse_gate_up")["backend"], "cpu");
}

TEST(PassesOff, NamesThoseThatTheSelectionLacks) {
  const auto backend = backends::null::make_null_backend();
  std::string all;
  for (const passes::Pass* pass : passes::pipeline(backend->passes()))
    all += (all.empty() ? "+" : ",+") + std::string(pass->name);
  const auto without = [&](const std::vector<std::string>& off, bool verbose) {
    std::string switches;
    for (const std::string& each : split(all, ','))
      if (std::ranges::count(off, each.substr(1)) == 0)
        switches += (switches.empty() ? "" : ",") + each;
    return passes_off_text(passes::Selection("baseline", switches), backend->passes(), verbose,
                           100);
  };
  const std::vector<std::string> off = {"lora", "fuse_rope_append"};
  EXPECT_EQ(without(off, false),
            "Passes that are off (--pass +NAME turns one on): lora, fuse_rope_append.\n");
  EXPECT_EQ(without(off, true),
            "\nPasses that are off (--pass +NAME turns one on):\n"
            "  lora\n"
            "    freeze the model and train low-rank adapters of projections (--lora-rank, "
            "--lora-targets)\n"
            "  fuse_rope_append\n"
            "    normalize and rotate heads and append them to the KV cache in one kernel\n");
}

// A step of one graph, or of two with several micro-batches.
class PricedStepTest : public testing::Test {
 protected:
  train::TrainingSetup setup(int64_t micro_batches) const {
    train::TrainingSetup setup;
    setup.config = models::llama_shape("test", {64, 32, 2, 4, 2, 8, 48, 16});
    setup.step.batch_size = 2;
    setup.step.sequence = 16;
    setup.step.micro_batches = micro_batches;
    setup.selection = passes::Selection("baseline", "");
    return setup;
  }
  PricedStep priced(int64_t micro_batches) const {
    return {train::build_step(setup(micro_batches), *backend_), *backend_, ceilings_};
  }
  // The number of values in each graph.
  static std::vector<size_t> values(const PricedStep& priced) {
    std::vector<size_t> counts;
    for (const train::StepGraph& each : priced.step.graphs)
      counts.push_back(each.graph.values.size());
    return counts;
  }

  const std::unique_ptr<backends::Backend> backend_ = backends::null::make_null_backend();
  const cost::Ceilings ceilings_ = cost::ceilings_of(*cost::find_hardware("h100"));
};

TEST_F(PricedStepTest, PrintsItsGraphsUnderHeadings) {
  const PricedStep two = priced(3);
  const std::string text = graphs_text(two.step, false), with = graphs_text(two.step, true);
  EXPECT_TRUE(text.starts_with("# accumulate: 3 run(s) per step\n%0 = ")) << text.substr(0, 99);
  EXPECT_EQ(count(text, "\n# update: 1 run(s) per step\n%0 = "), 1);
  EXPECT_EQ(count(text, "# "), 2);
  EXPECT_TRUE(has(text, "@ \"optimizer\""));
  EXPECT_FALSE(has(text, "f>\n"));
  EXPECT_TRUE(has(with, "f>\n"));
}

TEST_F(PricedStepTest, FindsAValueInEachGraph) {
  const PricedStep one = priced(1), two = priced(2);
  EXPECT_TRUE(value_text(one, "%0").starts_with("%0 is from outside the graph: input ids, i32[32]"))
      << value_text(one, "%0");
  EXPECT_EQ(value_text(one, "0"), value_text(one, "%0"));
  const std::string both = value_text(two, "0");
  EXPECT_TRUE(both.starts_with("# accumulate: 2 run(s) per step\n%0 is from outside")) << both;
  EXPECT_EQ(count(both, "# update: 1 run(s) per step\n%0 is from outside"), 1) << both;
  // The longer graph has more values than the other one.
  const std::vector<size_t> counts = values(two);
  ASSERT_EQ(counts.size(), 2u);
  ASSERT_NE(counts[0], counts[1]);
  const size_t fewer = std::min(counts[0], counts[1]), more = std::max(counts[0], counts[1]);
  EXPECT_EQ(count(value_text(two, std::to_string(fewer - 1)), "run(s) per step"), 2);
  EXPECT_EQ(count(value_text(two, std::to_string(fewer)), "run(s) per step"), 1);
  EXPECT_EQ(count(value_text(two, std::to_string(more - 1)), "run(s) per step"), 1);
  files::expect_error(
      [&] { value_text(two, std::to_string(more)); }, ExitCode::kUsage,
      fmt::format("[node] expected a value from %0 to %{}, got %{}", more - 1, more));
  files::expect_error(
      [&] { value_text(one, "%-1"); }, ExitCode::kUsage,
      fmt::format("[node] expected a value from %0 to %{}, got %-1", values(one).at(0) - 1));
}

TEST_F(PricedStepTest, RefusesWhatIsNoValue) {
  const PricedStep one = priced(1);
  for (const char* wrong : {"", "%", "x", "%1x", "%%1", " 1"})
    files::expect_error(
        [&] { value_text(one, wrong); }, ExitCode::kUsage,
        fmt::format("[node] expected a value of the graph such as %12, got \"{}\"", wrong));
}

TEST_F(PricedStepTest, ListsTheNodesOfAnOpInEachGraph) {
  const report::TerminalOptions terminal;
  const std::string one = op_text(priced(1), "matmul", terminal),
                    two = op_text(priced(2), "matmul", terminal);
  EXPECT_TRUE(one.starts_with("matmul is ")) << one;
  EXPECT_FALSE(has(one, "run(s)"));
  EXPECT_TRUE(two.starts_with("# accumulate: 2 run(s) per step\nmatmul is ")) << two;
  EXPECT_EQ(count(two, "# update: 1 run(s) per step\nmatmul is "), 1) << two;
  EXPECT_TRUE(two.ends_with("This graph has no such node.\n")) << "the update multiplies nothing";
  files::expect_error([&] { op_text(priced(1), "multiply", terminal); }, ExitCode::kUsage,
                      "multiply");
}

// The title names the level and the switches of the request, not those of a row.
TEST_F(PricedStepTest, HasATitleOfTheRequest) {
  train::TrainingSetup asked = setup(3);
  asked.setting.model = "test\x1b";
  asked.setting.level = "fused";
  asked.setting.switches = "+lora";
  asked.selection = passes::Selection("baseline", "+recompute=2");
  record::RunRecord planned;
  planned.setting = asked.setting;
  planned.setting.level = "baseline", planned.setting.switches = "+expand";
  planned.setting.batch_size = 40, planned.setting.sequence = 16, planned.setting.micro_batches = 3;
  planned.parameters = 1234567;
  const std::string text = passes_heading(asked, planned, false);
  EXPECT_TRUE(has(text, "fused +lora 40x16 x3 micro-batches: ")) << text;
  EXPECT_FALSE(has(text, "\x1b"));
  EXPECT_TRUE(text.ends_with(": 1,234,567 parameters, 1,920 tokens per step\n")) << text;
  std::string passes = asked.selection.str();
  for (size_t at = 0; (at = passes.find(',', at)) != std::string::npos; at += 2)
    passes.insert(at + 1, " ");
  EXPECT_EQ(passes_heading(asked, planned, true), text + "passes on: " + passes + "\n");
  EXPECT_TRUE(has(passes, ", recompute=2"));
}

}  // namespace
}  // namespace ridge::planning
