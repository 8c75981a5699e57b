// SPDX-License-Identifier: Apache-2.0
// The commands and files whose numbers are tried: a few extremes of each in the unit tests, all in
// the slow ones.
#pragma once

#include "apps/number_trial.h"
#include "apps/one_token_server.h"
#include "test_paths.h"

namespace ridge::apps {

class NumberCases : public NumberTrial {
 protected:
  void try_all_options(size_t every) {
    make_model();
    files::write_plain(folder_ / "text", "one two three two one");
    files::write_plain(folder_ / "ids.bin", "abcdefgh");
    files::write_plain(
        folder_ / "graph.txt",
        "%0 = input f32[4,8] \"x\"\n%1 : f32[4,8] = gelu_tanh(%0) #forward\nreturn %1\n");
    const std::string llama = sample("llama_fp32");
    const std::vector<std::string> infer_lab{llama,      "--level",
                                             "compiled", "--batch-size",
                                             "1",        "--seq-len",
                                             "8",        "--prompt-tokens",
                                             "4",        "--tokens",
                                             "2",        "--threads",
                                             "1",        "--latency-batch-size",
                                             "1",        "--attention-seq-len",
                                             "64",       "--seconds",
                                             "1",        "--out",
                                             "lab",      "--force"};
    const OneTokenServer server;
    try_options(
        {
            {"train", {"--preset", "tiny", "--steps", "2", "--warmup", "0", "--threads", "1"}},
            {"lab",
             {"--preset", "tiny", "--steps", "2", "--warmup", "0", "--threads", "1", "--level",
              "baseline", "--no-advice", "--out", "lab", "--force"}},
            {"infer-lab", infer_lab},
            {"generate", {"model.gguf", "hi", "--max-tokens", "2", "--threads", "1"}},
            {"serve", {"model.gguf", "--port", "0", "--max-sequences", "1", "--threads", "1"}},
            {"logits", {llama, "--ids", "1,2", "--threads", "1"}},
            {"perplexity", {llama, "--ids", "1,2,3", "--threads", "1"}},
            {"explain", {"--preset", "tiny", "--threads", "1", "--pass", "+lora"}},
            {"machine", {"--threads", "1"}},
            {"plan", {"--preset", "tiny", "--threads", "1", "--devices", "2"}},
            {"inspect", {llama}},
            {"convert", {llama, "made.gguf", "--force"}},
            {"bench op", {"softmax", "--shape", "n=2", "--threads", "1", "--seconds", "0.01"}},
            {"bench module",
             {"mlp", "--config", "tiny", "--seq-len", "4", "--form", "fused", "--threads", "1",
              "--seconds", "0.01"}},
            {"bench graph", {"graph.txt", "--threads", "1", "--seconds", "0.01"}},
            {"bench attention",
             {"--heads", "2", "--kv-heads", "1", "--seq-len", "8", "--threads", "1", "--seconds",
              "0.01"}},
            {"study inference",
             {"tiny", "--techniques", "flash", "--batch-size", "1", "--seq-len", "8", "--budget",
              "0.2", "--threads", "1"}},
            // This seed draws small shapes: others have up to 2 GiB.
            {"bench shapes",
             {"--count", "2", "--threads", "1", "--seconds", "0.01", "--seed", "4"}},
#ifdef RIDGE_COURSES
            {"demo", {"precision", "--budget", "0.01", "--threads", "1"}},
#endif
            {"bench model",
             {llama, "--prompt-tokens", "4", "--tokens", "2", "--repeats", "1", "--threads", "1"}},
            {"bench serve", {server.url(), "--model", "m", "--requests", "2", "--seconds", "0.2"}},
            {"tokenizer train", {"text", "--vocab-size", "260", "--out", "made", "--force"}},
            {"data tokenize", {"text", "--tokenizer", sample("tokenizers/gpt2"), "--out", "ids"}},
            {"data inspect", {"ids.bin"}},
            {"tokenizer decode", {sample("tokenizers/gpt2"), "--ids", "1"}},
        },
        every);
  }
};

}  // namespace ridge::apps
