// SPDX-License-Identifier: Apache-2.0
// Bad input must cause a clear message and the right exit code, and leave nothing behind.
#include "apps/program_run.h"

namespace ridge::apps {
namespace {

using RefusalTest = ProgramTest;

TEST_F(RefusalTest, UnknownNames) {
  expect_refused({"labb"}, 2, "ridge: unknown subcommand \"labb\" (did you mean lab?)");
  expect_refused({"train", "--levell=fused"}, 2, "unknown option \"--levell\" (did you mean");
  expect_refused({"lab", "extra"}, 2, "unexpected argument \"extra\"");
  expect_refused({"train", "--preset", "huge"}, 2,
                 "[preset] expected one of tiny, small, medium, large, got 'huge'");
  expect_refused({"train", "--level", "fastest"}, 2, "[level] expected one of baseline, fused");
  expect_refused({"train", "--pass", "+nonsense"}, 2,
                 "[pass] unknown pass \"nonsense\"; expected one of");
  expect_refused({"train", "--pass", "-expand"}, 2, "cannot be turned off");
  expect_refused({"train", "--pass", "+store_bf16"}, 2, "autocast_bf16 computes in bf16");
  expect_refused({"train", "--dtype", "fp8"}, 2, "[dtype] expected fp32, tf32 or bf16");
  expect_refused({"train", "--dtype", "bf16", "--tf32"}, 2, "--dtype excludes --tf32");
  expect_refused({"machine", "--device", "cpu", "--tf32"}, 2, "[tf32] expected a GPU");
  expect_refused({"train", "--isa", "z80"}, 2, "[isa]");
  expect_refused({"lab", "--levels", "baseline,fastest"}, 2, "[levels] expected all or some of");
  expect_refused({"lab", "--levels", "fused", "--profile-levels", "baseline"}, 2,
                 "expected one of the levels that run (fused), got baseline");
  expect_refused({"train", "--device", "cpu", "--nvtx"}, 2, "[nvtx] expected --device cuda");
  expect_refused({"bench", "op", "nonsense"}, 2, "unknown op \"nonsense\"");
  expect_refused({"bench", "op", "softmax", "--device", "abacus"}, 2, "[device]");
  expect_refused({"bench", "op", "reshape"}, 2, "is a view");
  expect_refused({"explain", "--op", "nonsense"}, 2, "unknown op \"nonsense\"");
  expect_refused({"explain", "--preset", "tiny", "--node", "x"}, 2,
                 "[node] expected a value of the graph");
}

TEST_F(RefusalTest, UnknownOptionsAndSubcommands) {
  expect_refused({"train", "--nonsense"}, 2, "--nonsense");
  expect_refused({"fly"}, 2, "subcommand");
  expect_refused({}, 2, "subcommand");
}

TEST_F(RefusalTest, NumbersThatAreNone) {
  expect_refused({"train", "--steps", "many"}, 2, "steps");
  expect_refused({"train", "--steps", "1.5"}, 2, "steps");
  expect_refused({"train", "--lr", "nan"}, 2, "[lr] expected a number from 0 to 1000, got nan");
  expect_refused({"train", "--lr", "inf"}, 2, "[lr]");
  expect_refused({"train", "--clip", "-1"}, 2, "[clip]");
  expect_refused({"lab", "--batch-sizes", "8,x"}, 2, "[batch-sizes] expected numbers >= 1");
  expect_refused({"lab", "--batch-sizes", "8,,16"}, 2, "[batch-sizes]");
  expect_refused({"lab", "--seq-lens", "1e3"}, 2, "[seq-lens]");
}

TEST_F(RefusalTest, ZeroNegativeAndHugeSizes) {
  expect_refused({"train", "--batch-size", "0"}, 2, "[batch-size] expected at least 1, got 0");
  expect_refused({"train", "--seq-len", "-128"}, 2, "[seq-len] expected at least 1, got -128");
  for (const char* program : {"explain", "plan"}) {
    expect_refused({program, "--batch-size", "-5"}, 2, "[batch-size] expected at least 1, got -5");
    expect_refused({program, "--seq-len", "0"}, 2, "[seq-len] expected at least 1, got 0");
  }
  expect_refused({"explain", "--micro-batches", "0"}, 2, "[micro-batches] expected 1 to 65536, got 0");
  for (const char* program : {"train", "explain", "plan"})
    expect_refused({program, "--seq-len", "1"}, 2, "[seq-len] expected at least 2 tokens");
  expect_refused({"train", "--steps", "0"}, 2, "[steps]");
  expect_refused({"train", "--steps", "99999999999999999999"}, 2, "[steps]");
  expect_refused({"train", "--warmup", "-1"}, 2, "[warmup]");
  expect_refused({"train", "--threads", "-2"}, 2, "[threads]");
  expect_refused({"train", "--threads", "1000000"}, 2, "[threads]");
  expect_refused({"train", "--micro-batches", "0"}, 2, "[micro-batches]");
  expect_refused({"train", "--micro-batches", "1000000000"}, 2, "[micro-batches]");
  expect_refused({"train", "--preset", "tiny", "--seq-len", "9000000000000000000"}, 4,
                 "does not fit");
  expect_refused({"train", "--preset", "tiny", "--batch-size", "90000000000000"}, 4, "ridge: [");
  expect_refused({"lab", "--steps", "1"}, 2, "[steps] expected 2");
  // Fits into 63 bits but into no machine: refused before any allocation.
  expect_refused({"train", "--preset", "large", "--batch-size", "1000", "--seq-len", "65536",
                  "--level", "baseline"},
                 4, "but this machine has");
  expect_refused({"train", "--preset", "large", "--batch-size", "1000", "--seq-len", "65536",
                  "--level", "baseline"},
                 4, "optimizer_state");
}

// The sums exceed 63 bits, although each product fits.
TEST_F(RefusalTest, AStepOfTooManyFlops) {
  files::write_plain(
      folder_ / "405b.json",
      R"({"vocab_size": 128256, "hidden_size": 16384, "num_hidden_layers": 126, "num_attention_heads": 128,
                         "num_key_value_heads": 8, "intermediate_size": 53248})");
  expect_refused({"plan", "--config", "405b.json", "--hardware", "h100", "--batch-size", "2048",
                  "--seq-len", "8192"},
                 4, "does not fit in 63 bits");
}

TEST_F(RefusalTest, SchedulesThatCannotBe) {
  expect_refused({"train", "--lr-warmup", "100", "--lr-decay", "100"}, 2,
                 "[lr-decay] expected a step after --lr-warmup, which is 100, got 100");
  expect_refused({"train", "--lr", "1e-4", "--min-lr", "1e-3"}, 2, "[min-lr] expected at most");
}

TEST_F(RefusalTest, ExplainAnswersOneQuestion) {
  expect_refused({"explain", "lab-out", "--json"}, 2, "excludes");
  expect_refused({"explain", "--op", "matmul", "--json"}, 2, "excludes");
  expect_refused({"explain", "--node", "%12", "--json"}, 2, "excludes");
  expect_refused({"explain", "--graph", "--json"}, 2, "excludes");
  expect_refused({"explain", "--graph", "--passes"}, 2, "excludes");
  expect_refused({"explain", "--graph", "--op", "matmul"}, 2, "excludes");
}

TEST_F(RefusalTest, ConfigurationFiles) {
  files::write_plain(folder_ / "broken.json", "{\"hidden_size\": ");
  files::write_plain(
      folder_ / "typed.json",
      R"({"vocab_size": 100, "hidden_size": "wide", "num_hidden_layers": 2, "num_attention_heads": 4,
                         "intermediate_size": 64})");
  files::write_plain(
      folder_ / "heads.json",
      R"({"vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
                         "num_key_value_heads": 3, "intermediate_size": 64})");
  files::write_plain(
      folder_ / "odd.json",
      R"({"vocab_size": 100, "hidden_size": 28, "num_hidden_layers": 2, "num_attention_heads": 4,
                         "intermediate_size": 64})");
  expect_refused({"train", "--config", "missing.json"}, 3, "missing.json");
  expect_refused({"train", "--config", "broken.json"}, 3, "not valid JSON");
  expect_refused({"train", "--config", "typed.json"}, 3, "hidden_size");
  Output heads = run({"train", "--config", "heads.json"});
  EXPECT_TRUE(heads.code == 2 || heads.code == 3) << heads.code;
  EXPECT_NE(heads.err.find("multiple of num_key_value_heads"), std::string::npos) << heads.err;
  Output odd = run({"train", "--config", "odd.json"});
  EXPECT_TRUE(odd.code == 2 || odd.code == 3) << odd.code;
  EXPECT_NE(odd.err.find("even head size"), std::string::npos) << odd.err;
  expect_refused({"train", "--config", "odd.json", "--preset", "tiny"}, 2, "excludes");
}

TEST_F(RefusalTest, OutputFolders) {
  files::write_plain(folder_ / "file", "mine");
  std::filesystem::create_directory(folder_ / "full");
  files::write_plain(folder_ / "full" / "keep", "mine");
  expect_refused({"lab", "--preset", "tiny", "--out", "file"}, 2, "is not a folder");
  expect_refused({"lab", "--preset", "tiny", "--out", "full"}, 2, "--force");
  expect_refused({"train", "--preset", "tiny", "--out", "full"}, 2, "--force");
  expect_refused({"lab", "--preset", "tiny", "--out", "no/such/folder"}, 1, "No such file");
  expect_refused({"lab", "--preset", "tiny", "--out", "/proc/lab"}, 1, "cannot write");
  expect_refused({"lab", "--preset", "tiny", "--out", ""}, 2, "[out]");
  EXPECT_EQ(files::contents(folder_ / "file"), "mine");
  EXPECT_EQ(files::contents(folder_ / "full" / "keep"), "mine");
}

TEST_F(RefusalTest, WhatIsNoOutputFolder) {
  std::filesystem::create_directory(folder_ / "other");
  expect_refused({"explain", "other"}, 3, "performance_summary.json");
  expect_refused({"diff", "other", "nowhere"}, 3, "performance_summary.json");
  std::string path = folder_ / "other" / "performance_summary.json";
  for (const char* text : {"", "[]", "{\"version\": 99}", "{\"version\": 1, \"program\": 3}",
                           "{\"version\": -1}", "{\"version\": \"1\"}", "not JSON"}) {
    files::write_plain(path, text);
    expect_refused({"explain", "other"}, 3, "performance_summary.json");
  }
}

}  // namespace
}  // namespace ridge::apps
