// SPDX-License-Identifier: Apache-2.0
// Tests of several processes that share a model: they answer as one process does.
#include "apps/shared_model_run.h"

namespace ridge::apps {
namespace {

using TensorParallelTest = SharedModelTest;

// The second rank reads a file of the same size whose last byte differs.
TEST_F(TensorParallelTest, RanksThatReadOtherModelsAreRefused) {
  for (const char* each : {"one", "other"})
    std::filesystem::copy(small("llama_fp32"), folder_ / each);
  std::string weights = files::contents(folder_ / "other" / "model.safetensors");
  weights.back() ^= 1;
  files::write_plain(folder_ / "other" / "model.safetensors", weights);
  files::write_plain(
      folder_ / "second.sh",
      "if [ $OMPI_COMM_WORLD_RANK = 1 ]; then for w; do [ \"$w\" = one ] && w=other; "
      "set -- \"$@\" \"$w\"; shift; done; fi\nexec \"$@\"\n");
  const Output output =
      run({"logits", "one", "--ids", "1,2,3", "--device", "cpu", "--tensor-parallel", "2"},
          {.environment = kOnAnyMachine,
           .launcher = {"/usr/bin/mpirun", "-n", "2", "/bin/sh", "second.sh"}});
  EXPECT_EQ(output.code, 2) << output.err;
  EXPECT_NE(output.err.find("expected every rank to read the same model; rank 0 has \"one"),
            std::string::npos)
      << output.err;
  EXPECT_NE(output.err.find("rank 1 has \"other"), std::string::npos) << output.err;
}

TEST_F(TensorParallelTest, FamiliesHaveTheLogitsOfOneRank) {
  for (const char* model : {"llama_fp32", "gemma3_bf16", "qwen2_fp32", "qwen3_bf16"})
    for (const int ranks : {2, 4}) {
      SCOPED_TRACE(testing::Message() << model << " on " << ranks);
      expect_same_logits(ranks, {"logits", small(model), "--ids", "1,2,3,4,5,6,7"});
    }
}

TEST_F(TensorParallelTest, EveryLevelHasTheLogitsOfOneRank) {
  for (const char* level : {"baseline", "fused", "kernels"})
    expect_same_logits(2, {"logits", small("qwen2_window_fp32"), "--ids", "1,2,3,4,5,6,7",
                           "--level", level, "--exact"});
}

TEST_F(TensorParallelTest, NineHeadsOnThreeRanksGenerateTheTextOfOne) {
  make_model();
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {}, {"--temperature", "1", "--seed", "5", "--top-p", "0.9"}}) {
    std::vector<std::string> words = {"generate", "model", "abc", "--max-tokens", "24"};
    words.insert(words.end(), more.begin(), more.end());
    const json one = answer(1, words), all = answer(3, words);
    EXPECT_EQ(one["ids"].size(), 24u);
    EXPECT_EQ(one["ids"], all["ids"]);
    EXPECT_EQ(one["text"], all["text"]);
  }
}

TEST_F(TensorParallelTest, QuantizedWeightsAreCutInWholeBlocks) {
  make_model();
  ASSERT_EQ(run({"convert", "model", "q8.gguf", "--type", "q8_0"}).code, 0);
  expect_same_logits(3, {"logits", "q8.gguf", "--ids", "1,2,3", "--exact"});
  ASSERT_EQ(run({"convert", "--random-weights", "shape.json", "q4.gguf", "--type", "q4_0"}).code,
            0);
  expect_same_logits(3, {"logits", "q4.gguf", "--ids", "1,2,3", "--exact"});
}

TEST_F(TensorParallelTest, PerplexityIsThatOfOneRank) {
  const std::vector<std::string> words = {"perplexity", small("llama3_bf16_sharded"), "--ids",
                                          "1,2,3,4,5,6,7,8,9,10,11,12"};
  EXPECT_NEAR(answer(1, words)["perplexity"], answer(2, words)["perplexity"], 1e-3);
}

TEST_F(TensorParallelTest, BenchesAShapeWithoutWeights) {
  const json made = answer(2, {"bench", "model", small("llama_fp32") + "/config.json",
                               "--random-weights", "-p", "8", "-n", "4", "-r", "1"});
  EXPECT_EQ(made["tests"].size(), 2u) << made.dump();
}

TEST_F(TensorParallelTest, AShapeGeneratesTheTextOfOneRank) {
  make_model();
  const std::vector<std::string> words = {"generate",         "shape.json",   "abc",
                                          "--random-weights", "--max-tokens", "12"};
  expect_refused(words, 3, "expected a tokenizer.json beside it, or --tokenizer");
  std::vector<std::string> with = words;
  with.insert(with.end(), {"--tokenizer", "words"});
  const json one = answer(1, with), all = answer(3, with);
  EXPECT_EQ(one["ids"].size(), 12u);
  EXPECT_EQ(one["ids"], all["ids"]);
}

TEST_F(TensorParallelTest, TheInferenceLabMeasuresOnRanks) {
  const Output made = run({"infer-lab",
                           small("llama_fp32") + "/config.json",
                           "--random-weights",
                           "--level",
                           "fused,compiled",
                           "--batch-size",
                           "1,2",
                           "--seq-len",
                           "16",
                           "--latency-batch-size",
                           "2",
                           "--prompt-tokens",
                           "8",
                           "--tokens",
                           "4",
                           "--attention-seq-len",
                           "64",
                           "--seconds",
                           "60",
                           "--json",
                           "--out",
                           "lab",
                           "--device",
                           "cpu",
                           "--tensor-parallel",
                           "2"},
                          {.environment = kOnAnyMachine});
  ASSERT_EQ(made.code, 0) << made.err;
  const json study = json::parse(made.out);
  EXPECT_EQ(study["file"]["format"], "random weights");
  EXPECT_LE(study["kv_cache"][0]["logits_difference"].get<double>(), 1e-4);
  EXPECT_EQ(study["latency"].size(), 1u);
  const json runs =
      json::parse(files::contents(folder_ / "lab" / "performance_summary.json"))["runs"];
  ASSERT_EQ(runs.size(), 6u);  // prefill and decode of two levels, and of two sequences
  for (const json& each : runs) EXPECT_GT(each["step"]["median_ns"].get<double>(), 0) << each;
}

TEST_F(TensorParallelTest, AStudyMeasuresOnRanksWhatItPlansWithout) {
  std::vector<std::string> words = {"study",
                                    "inference",
                                    small("llama_fp32") + "/config.json",
                                    "--techniques",
                                    "eager,tuned",
                                    "--batch-size",
                                    "2",
                                    "--seq-len",
                                    "16",
                                    "--device",
                                    "cpu",
                                    "--json",
                                    "--tensor-parallel",
                                    "2"};
  const Output run_on_ranks = run(words, {.environment = kOnAnyMachine});
  ASSERT_EQ(run_on_ranks.code, 0) << run_on_ranks.err;
  words.push_back("--plan");
  const Output planned = run(words);
  words[words.size() - 2] = "-1";
  expect_refused(words, 2, "[tensor-parallel] expected at least 1 rank, got -1");
  ASSERT_EQ(planned.code, 0) << planned.err;
  const json measured = json::parse(run_on_ranks.out), plan = json::parse(planned.out);
  ASSERT_EQ(measured["cases"].size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_GT(measured["cases"][i]["median_ns"].get<double>(), 0) << measured["cases"][i];
    for (const char* count : {"flops", "bytes", "kernel_calls"})
      EXPECT_EQ(measured["cases"][i][count], plan["cases"][i][count]) << count;
  }
}

TEST_F(TensorParallelTest, ServesWhatOneRankGenerates) {
  make_model();
  expect_serves_the_same(3, json::object());
}

TEST_F(TensorParallelTest, OtherNumbersOfRanksAreUsageErrors) {
  const Output three = share(3, {"logits", small("llama_fp32"), "--ids", "1"});
  EXPECT_EQ(three.code, 2);
  EXPECT_NE(three.err.find("expected 1, 2, 4 ranks, which divide 4 heads"), std::string::npos)
      << three.err;
  EXPECT_EQ(three.out, "");
  EXPECT_EQ(share(-1, {"logits", small("llama_fp32"), "--ids", "1"}).code, 2);
}

}  // namespace
}  // namespace ridge::apps
