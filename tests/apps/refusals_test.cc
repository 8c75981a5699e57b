// SPDX-License-Identifier: Apache-2.0
// Bad input must cause a clear message and the right exit code, and leave nothing behind.
#include <regex>
#include <set>
#include <sstream>

#include "apps/program_run.h"
#include "test_paths.h"

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
  for (const char* number : {"0", "-1", "x", "1.5", "", "99999999999999999999"})
    expect_refused({"train", "--pass", std::string("+recompute=") + number}, 2,
                   "[pass] expected a number of layers >= 1 after recompute=");
  expect_refused({"train", "--pass", "+fuse_glu=2"}, 2, "unknown pass \"fuse_glu=2\"");
  expect_refused({"train", "--pass", "-recompute=2"}, 2, "unknown pass \"recompute=2\"");
  expect_refused({"lab", "--try", "11"}, 2, "[try] expected 0 to 10, got 11");
  expect_refused({"lab", "--try", "1", "--no-advice"}, 2, "--try has no effect with --no-advice");
  expect_refused({"train", "--pass", "+store_bf16"}, 2, "store_bf16 is for inference");
  expect_refused({"train", "--dtype", "fp8"}, 2, "[dtype] expected fp32, tf32, bf16 or fp16");
  expect_refused({"train", "--dtype", "bf16", "--tf32"}, 2, "--dtype excludes --tf32");
  expect_refused({"machine", "--device", "cpu", "--tf32"}, 2, "[tf32] expected a GPU");
  expect_refused({"train", "--isa", "z80"}, 2, "[isa]");
  expect_refused({"lab", "--level", "baseline,fastest"}, 2, "[level] expected all or some of");
  expect_refused({"lab", "--level", "fused", "--profile-level", "baseline"}, 2,
                 "expected one of the levels that run (fused), got baseline");
  expect_refused({"train", "--device", "cpu", "--nvtx"}, 2, "[nvtx] expected --device cuda");
  expect_refused({"bench", "op", "nonsense"}, 2, "unknown op \"nonsense\"");
  expect_refused({"bench", "op", "softmax", "--device", "abacus"}, 2, "[device]");
  expect_refused({"bench", "op", "reshape"}, 2, "is a view");
  expect_refused({"bench", "op", "matmul", "--shape", "n=-1"}, 2,
                 "[shape] expected extents from 1");
  expect_refused({"bench", "op", "matmul", "--sweep", "n=1:1000000"}, 2, "at most 10000 points");
  expect_refused({"bench", "op", "matmul", "--shape", "n=9999999999,k=9999999"}, 4, "elements");
  expect_refused({"bench", "op", "matmul", "--shape", "n=99999,k=999999"}, 4, "of memory");
  expect_refused({"bench", "op", "matmul", "--shape", "q=1"}, 2, "expected the letters n (rows");
  expect_refused({"bench", "op", "gemv", "--shape", "k=100", "--dtype", "q4_k"}, 2,
                 "a multiple of 256");
  expect_refused({"bench", "op", "softmax", "--shape", "n=1", "--dtype", "q4_k"}, 2,
                 "[dtype] softmax has no weights");
  expect_refused({"bench", "op", "softmax", "--shape", "n=1", "--dtype", "f7"}, 2,
                 "[dtype] expected fp32");
  expect_refused({"bench", "op", "softmax", "--shape", "n=1", "--implementation", "fast"}, 2,
                 "some of kernel");
  expect_refused({"bench", "op", "softmax", "--shape", "n=1", "--seconds", "0"}, 2, "[seconds]");
  expect_refused({"bench", "op", "softmax", "--shape", "n=1", "--format", "xml"}, 2, "[format]");
  expect_refused({"bench", "op", "softmax", "--shape", "n=1", "-o", "a.csv"}, 2, "--format");
  expect_refused({"explain", "--op", "nonsense"}, 2, "unknown op \"nonsense\"");
  expect_refused({"explain", "--preset", "tiny", "--node", "x"}, 2,
                 "[node] expected a value of the graph");
}

// Names of llama.cpp and transformers reach the options here, in any order of arguments.
TEST_F(RefusalTest, NamesOfOtherProgramsWork) {
  const std::string model = "model";
  files::write_plain(folder_ / "config.json", R"({"model_type": "llama", "vocab_size": 701,
    "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
    "intermediate_size": 48, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
    "rope_theta": 10000, "tie_word_embeddings": false, "hidden_act": "silu"})");
  ASSERT_EQ(run({"convert", "--random-weights", "config.json", model}).code, 0);
  for (const auto& each : std::filesystem::directory_iterator(test_data("models/tokenizers/gpt2")))
    std::filesystem::copy_file(each.path(), folder_ / model / each.path().filename(),
                               std::filesystem::copy_options::overwrite_existing);
  const std::vector<std::vector<std::string>> lines = {
      {"generate", model, "Once", "--max-tokens", "2", "--temperature", "0"},
      {"run", "-m", model, "-p", "Once", "-n", "2", "--temp", "0"},
      {"generate", "--prompt", "Once", "--n-predict", "2", "--model=" + model, "-t", "1"},
      {"generate", model, "-p", "Once", "--max_new_tokens=2", "-c", "16"},
      {"generate", model, "Once", "--tokens", "2", "--repeat_penalty", "1"},
  };
  const Output expected = run(lines[0]);
  ASSERT_EQ(expected.code, 0) << expected.err;
  for (const std::vector<std::string>& each : lines) {
    const Output output = run(each);
    EXPECT_EQ(output.code, 0) << each[1] << output.err;
    EXPECT_EQ(output.out, expected.out) << each[1];
  }
  // One file of both streams has their lines in the order in which they were written.
  const std::string command = fmt::format("cd '{}' && '{}' generate {} Once --max-tokens 2 2>&1",
                                          folder_.path().string(), ridge_program(), model);
  std::FILE* both = ::popen(command.c_str(), "r");
  ASSERT_NE(both, nullptr);
  std::array<char, 4096> text{};
  const size_t size = std::fread(text.data(), 1, text.size(), both);
  EXPECT_EQ(::pclose(both), 0);
  const std::string summary = expected.err.substr(0, expected.err.find(','));  // without times
  EXPECT_TRUE(std::string(text.data(), size).starts_with(expected.out + summary)) << text.data();
  expect_refused({"train", "--learning_rate", "-1"}, 2, "[lr] expected");
  expect_refused({"train", "--learning-rate=-1"}, 2, "[lr] expected");
  expect_refused({"train", "--epochs", "3"}, 2, "--steps or --tokens sets the length");
  expect_refused({"train", "--num_train_epochs", "3"}, 2, "--steps or --tokens sets the length");
  expect_refused({"chat", model}, 2, "`ridge generate MODEL --chat`");
  expect_refused({"quantize", "a", "b"}, 2, "`ridge convert IN OUT.gguf --type q4_k`");
  expect_refused({"finetune"}, 2, "`ridge train --model MODEL --data FILE`");
  expect_refused({"generate"}, 2, "MODEL is required");
  expect_refused({"generate", model, "-ngl", "99"}, 2, "--device cuda computes all layers");
  expect_refused({"report", "nowhere", "--out", "page.html"}, 3, "expected an output folder");
  expect_refused({"lab", "--preset", "tiny", "-o", "no/such/folder"}, 1, "No such file");
}

// A first user's guess is answered with the way.
TEST_F(RefusalTest, ArgumentsOfAFirstUser) {
  files::write_plain(folder_ / "a.txt", "a text");
  expect_refused({"train", "a.txt"}, 2, "\"a.txt\": --data takes a text or data set");
  expect_refused({"train", "--data", "a.txt"}, 2, "(`ridge tokenizer train` makes one)");
  expect_refused({"lab", "tiny"}, 2, "--preset chooses the model's size");
  expect_refused({"plan", "tiny"}, 2, "--preset or --model chooses the model");
  expect_refused({"generate", "model", "Once", "upon"}, 2,
                 "a prompt of several words needs quotes");
  expect_refused({"tokenizer", "encode", "model", "Once"}, 2, "the text comes on stdin");
  expect_refused({"logits", "model", "Once"}, 2, "`ridge tokenizer encode` prints");
  expect_refused({"bench"}, 2, "expected a subcommand: op, module, ");
  expect_refused({"bench", "model.gguf"}, 2,
                 "unknown subcommand \"model.gguf\"; expected one of op,");
}

// The families of commands name each command, and an argument that has an option's name too is
// listed once.
TEST_F(RefusalTest, HelpNamesAllFamilies) {
  const std::string help = run({"--help"}).out;
  const std::string families = help.substr(0, help.find("Usage:"));
  std::istringstream commands(help.substr(help.find("Subcommands:")));
  int count = 0;
  for (std::string line; std::getline(commands, line);) {
    if (!line.starts_with("  ") || line[2] == ' ') continue;
    const std::string name = line.substr(2, line.find(' ', 2) - 2);
    EXPECT_TRUE(families.find(" " + name) != std::string::npos) << name << "\n" << families;
    ++count;
  }
  EXPECT_GT(count, 15);
  // The commands of README.md are each of them, once.
  const std::string readme = files::contents(source_file("README.md"));
  std::set<std::string> shown;
  const std::regex command("\nridge ([a-z-]+)");
  for (std::sregex_iterator at(readme.begin(), readme.end(), command), end; at != end; ++at)
    EXPECT_TRUE(shown.insert((*at)[1]).second) << (*at)[1] << " twice";
  EXPECT_EQ(std::ssize(shown), count);
  const std::string generate = run({"generate", "--help"}).out;
  EXPECT_EQ(generate.find("a .gguf file, or a folder"),
            generate.rfind("a .gguf file, or a folder"));
  EXPECT_NE(generate.find("MODEL TEXT REQUIRED"), std::string::npos) << generate;
}

// A message is one line, so a table in it would be shown with its line ends escaped.
TEST_F(RefusalTest, ATrainingThatDoesNotFitNamesItsLargestParts) {
  const Output output = run({"train", "--preset", "large", "--batch-size", "4096", "--level",
                             "fused", "--device", "cpu"});
  EXPECT_EQ(output.code, 4);
  EXPECT_EQ(output.err.find('\n'), output.err.size() - 1) << output.err;
  EXPECT_EQ(output.err.find("\\x"), std::string::npos) << output.err;
  EXPECT_NE(output.err.find("left; the largest parts are activations "), std::string::npos)
      << output.err;
  EXPECT_NE(output.err.find("optimizer_state 7.5"), std::string::npos) << output.err;
  EXPECT_NE(output.err.find("ridge plan"), std::string::npos) << output.err;
}

TEST_F(RefusalTest, UnknownOptionsAndSubcommands) {
  expect_refused({"train", "--nonsense"}, 2, "--nonsense");
  expect_refused({"fly"}, 2, "subcommand");
  expect_refused({}, 2, "subcommand");
}

TEST_F(RefusalTest, ArgumentsAfterTwoDashesAreNoOptions) {
  expect_refused({"generate", "--nofile"}, 2, "(after --, arguments may begin with -)");
  expect_refused({"generate", "--max-tokens", "2", "--", "--nofile", "--json"}, 3, "--nofile");
  for (const char* program : {"inspect", "infer-lab", "explain"})
    expect_refused({program, "--", "--nofile"}, 3, "--nofile");
  expect_refused({"bench", "model", "--", "--nofile"}, 3, "--nofile");
  expect_refused({"bench", "op", "--", "--softmax"}, 2, "unknown op \"--softmax\"");
  expect_refused({"logits", "--ids", "1", "--", "--nofile"}, 3, "--nofile");
  expect_refused({"perplexity", "--", "--nofile", "--text"}, 3, "--nofile");
  expect_refused({"diff", "--", "--nofile", "--other"}, 3, "--nofile");
  expect_refused({"tokenizer", "decode", "--ids", "1", "--", "--nofile"}, 3, "--nofile");
  expect_refused({"tokenizer", "train", "--vocab-size", "300", "--out", "made", "--", "--nofile"},
                 3, "--nofile");
  // --pass takes a value that begins with -, but here it is a name.
  expect_refused({"convert", "--", "--pass", "-x"}, 3, "--pass: expected");
  expect_refused({"generate", "m", "--", "--two", "words"}, 2, "unexpected argument \"words\"");
  expect_refused({"generate", "--max-tokens", "x", "--", "m", "--y"}, 2, "[max-tokens]");
}

TEST_F(RefusalTest, LengthsBeyondTheContext) {
  const std::string config = test_data("models/llama_fp32/config.json").string();
  for (const char* program : {"train", "explain", "plan"})
    expect_refused({program, "--config", config, "--seq-len", "257"}, 2,
                   "[seq-len] expected at most 256 tokens, the context of \"llama_fp32\", got 257");
  expect_refused({"lab", "--config", config, "--seq-lens", "16,257"}, 2,
                 "[seq-len] expected at most 256 tokens");
  EXPECT_EQ(run({"explain", "--config", config, "--seq-len", "256"}).code, 0);
  // A preset is trained at any length, which becomes the context of the saved model.
  const Output made = run(
      tiny({"train", "--steps", "1", "--batch-size", "1", "--seq-len", "200", "--save", "model"}));
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(run({"logits", "model", "--ids", "1", "--context", "200"}).code, 0);
}

TEST_F(RefusalTest, NumbersThatAreNone) {
  expect_refused({"train", "--steps", "many"}, 2, "steps");
  expect_refused({"train", "--steps", "1.5"}, 2, "[steps] expected a whole number, got \"1.5\"");
  expect_refused({"train", "--steps", "0x10"}, 2, "[steps] expected a whole number");
  expect_refused({"train", "--lr", "fast"}, 2, "[lr] expected a number, got \"fast\"");
  // Neither wraps to a large number nor is cut to the largest.
  expect_refused({"convert", "--random-weights", "c.json", "m.gguf", "--seed", "-1"}, 2,
                 "[seed] expected a whole number from 0 on, got \"-1\"");
  expect_refused({"train", "--steps", "99999999999999999999"}, 2, "got \"99999999999999999999\"");
  expect_refused({"generate", "m", "x", "--seed", "-99999999999999999999"}, 2,
                 "[seed] expected at least -9223372036854775808");
  // Decimal, also with a zero before it.
  EXPECT_NE(run(tiny({"train", "--steps", "010", "--batch-size", "1", "--seq-len", "8"}))
                .out.find("step    9"),
            std::string::npos);
  expect_refused({"train", "--lr", "nan"}, 2, "[lr] expected a number from 0 to 1000, got nan");
  expect_refused({"train", "--lr", "inf"}, 2, "[lr]");
  expect_refused({"train", "--clip", "-1"}, 2, "[clip]");
  expect_refused({"lab", "--batch-size", "8,x"}, 2, "[batch-size] expected numbers >= 1");
  expect_refused({"lab", "--batch-size", "8,,16"}, 2, "[batch-size]");
  expect_refused({"lab", "--seq-len", "1e3"}, 2, "[seq-len]");
}

TEST_F(RefusalTest, ZeroNegativeAndHugeSizes) {
  expect_refused({"train", "--batch-size", "0"}, 2, "[batch-size] expected at least 1, got 0");
  expect_refused({"train", "--seq-len", "-128"}, 2, "[seq-len] expected at least 1, got -128");
  for (const char* program : {"explain", "plan"}) {
    expect_refused({program, "--batch-size", "-5"}, 2, "[batch-size] expected at least 1, got -5");
    expect_refused({program, "--seq-len", "0"}, 2, "[seq-len] expected at least 1, got 0");
  }
  expect_refused({"explain", "--micro-batches", "0"}, 2, "[micro-batches] expected 1 to");
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
                         "num_key_value_heads": 8, "intermediate_size": 53248,
                         "max_position_embeddings": 131072})");
  expect_refused({"plan", "--config", "405b.json", "--hardware", "h100", "--batch-size", "2048",
                  "--seq-len", "8192"},
                 4, "does not fit in 63 bits");
}

TEST_F(RefusalTest, ListsWhereOneNumberIsExpected) {
  for (const char* program : {"train", "explain", "plan"}) {
    expect_refused({program, "--batch-size", "1,8"}, 2,
                   "[batch-size] expected one number, got the list \"1,8\"");
    expect_refused({program, "--seq-len", "64,128"}, 2, "[seq-len] expected one number");
  }
  expect_refused({"bench", "model", "m.gguf", "--batch-size", "1,8"}, 2,
                 "[batch-size] expected one number, got the list \"1,8\"");
  expect_refused({"train", "--steps", "1,2"}, 2, "[steps] expected one number, got the list");
  expect_refused({"train", "--level", "baseline,fused"}, 2, "[level] expected one of baseline");
}

TEST_F(RefusalTest, EmptyTextsAndMissingValues) {
  for (const std::vector<std::string>& each : std::vector<std::vector<std::string>>{
           {"explain", "--op", ""},
           {"explain", "--node", ""},
           {"explain", ""},
           {"plan", "--model", ""},
           {"train", "--config", ""},
           {"train", "--device", ""},
           {"train", "--save", ""},
           {"lab", "--batch-size", ""},
           {"generate", "m", "x", "--chat", "--chat-template", ""},
           {"generate", "m", ""}})
    expect_refused(each, 2, "expected a text, got an empty one");
  expect_refused({"train", "--steps"}, 2, "[steps] expected a value, got none");
  expect_refused({"train", "--out"}, 2, "[out] expected a value, got none");
  expect_refused({"train", "--steps", "1", "--steps", "2"}, 2, "[steps] expected one value, got 2");
}

// Both spellings reach the same option; the refusal names the present one.
TEST_F(RefusalTest, FormerNamesOfOptions) {
  const std::string model = test_data("models/llama_fp32").string();
  for (const char* name : {"--batch-size", "--batch-sizes", "--batch-sizes="})
    for (const std::vector<std::string>& command :
         std::vector<std::vector<std::string>>{{"lab"}, {"infer-lab", model}, {"train"}}) {
      std::vector<std::string> arguments = command;
      if (std::string_view(name).ends_with("="))
        arguments.push_back(std::string(name) + "x");
      else
        arguments.insert(arguments.end(), {name, "x"});
      expect_refused(arguments, 2, "[batch-size] expected");
    }
  expect_refused({"lab", "--seq-lens", "x"}, 2, "[seq-len] expected numbers");
  expect_refused({"lab", "--levels", "x"}, 2, "[level] expected all or some");
  expect_refused({"lab", "--profile-levels", "x"}, 2, "[profile-level] expected all or some");
  expect_refused({"train", "--levels", "x"}, 2, "[level] expected one of");
  expect_refused({"infer-lab", model, "--latency-batches", "x"}, 2,
                 "[latency-batch-size] expected");
  expect_refused({"infer-lab", model, "--attention-lens", "x"}, 2, "[attention-seq-len] expected");
  expect_refused({"infer-lab", model, "--prompt", "0"}, 2, "--prompt-tokens");
  expect_refused({"bench", "model", model, "--batch", "0"}, 2, "[batch-size] expected 1 to");
  expect_refused({"bench", "model", model, "-p", "0", "-d", "9223372036854775807"}, 2,
                 "got 9223372036854775807");
  // No command has both names, and a command without the option refuses the former name.
  expect_refused({"inspect", model, "--prompt", "x"}, 2, "unknown option \"--prompt\"");
  for (const char* program : {"lab", "infer-lab", "train", "plan"}) {
    const std::string help = run({program, "--help"}).out;
    const bool is_list = program != std::string("train");
    for (const char* option : {"--batch-size", "--seq-len"})
      EXPECT_NE(help.find(fmt::format("{} INT{}", option, is_list ? ",..." : " ")),
                std::string::npos)
          << program << option;
    for (const char* former : {"--batch-sizes", "--seq-lens", "--levels", "--prompt "})
      EXPECT_EQ(help.find(former), std::string::npos) << program << former;
  }
}

TEST_F(RefusalTest, SchedulesThatCannotBe) {
  expect_refused({"train", "--lr-warmup", "100", "--lr-decay", "100"}, 2,
                 "[lr-decay] expected a step after --lr-warmup, which is 100, got 100");
  expect_refused({"train", "--lr", "1e-4", "--min-lr", "1e-3", "--lr-decay", "9"}, 2,
                 "[min-lr] expected at most");
}

TEST_F(RefusalTest, OptionsWithoutEffect) {
  struct Refusal {
    std::vector<std::string> arguments;
    const char* message;
  };
  for (const Refusal& each : std::vector<Refusal>{
           {{"train", "--force"}, "[force] --force has no effect without --out"},
           {{"lab", "--force"}, "[force] --force has no effect without --out"},
           {{"infer-lab", test_data("models/llama_fp32").string(), "--force"},
            "[force] --force has no effect without --out"},
           {{"train", "--min-lr", "1e-5"}, "[min-lr] --min-lr has no effect without --lr-decay"},
           {{"explain", "lab-out", "--preset", "tiny"}, "--preset has no effect on a folder"},
           {{"explain", "lab-out", "--batch-size", "2"}, "--batch-size has no effect on a folder"},
           {{"explain", "lab-out", "--device", "cpu"}, "--device has no effect on a folder"},
           {{"explain", "--passes", "--level", "fused"}, "--level has no effect with --passes"},
           {{"explain", "--plain"}, "--plain has no effect without --graph"},
           {{"generate", "m", "--system", "x"}, "--system has no effect without --chat"},
           {{"generate", "m", "--chat-template", "x"}, "no effect without --chat"},
           {{"generate", "m", "x", "--top-k", "3"}, "--top-k has no effect at temperature 0"},
           {{"generate", "m", "x", "--top-p", "1"}, "--top-p has no effect at temperature 0"},
           {{"generate", "m", "x", "--min-p", "1"}, "--min-p has no effect at temperature 0"},
           {{"generate", "m", "x", "--seed", "1"}, "--seed has no effect at temperature 0"},
           {{"convert", "m", "m.gguf", "--max-shard", "9"},
            "--max-shard has no effect with a .gguf"},
           {{"convert", "m", "folder", "--force"}, "--force has no effect with a folder"},
           {{"bench", "model", "m", "--format", "csv", "--operations"},
            "no effect with --format csv"},
           {{"bench", "model", "m", "-o", "csv", "--json"}, "--format has no effect with --json"},
           {{"bench", "model", "m", "-n", "0", "-d", "8"},
            "--depth has no effect without generated"},
           {{"bench", "model", "m", "-t", "1", "--threads", "2"},
            "--threads has no effect with -t"},
           {{"plan", "--chunk", "8"}, "--chunk has no effect without --inference or --model"},
           {{"plan", "--exact"}, "--exact has no effect without --inference or --model"},
           {{"plan", "--cache-dtype", "i8"},
            "--cache-dtype has no effect without --inference or --model"},
           {{"plan", "--inference", "--tokens", "9"},
            "--tokens has no effect in a plan of inference"},
           {{"plan", "--model", "m", "--dtype", "bf16"},
            "--dtype has no effect in a plan of inference"},
           {{"plan", "--hardware", "h100", "--threads", "2"},
            "--threads has no effect with --hardware"},
           {{"train", "--device", "cuda", "--threads", "2"}, "--threads has no effect on a GPU"},
           {{"machine", "--device", "cuda", "--isa", "avx2"}, "--isa has no effect on a GPU"},
           {{"bench", "op", "softmax", "--tune"}, "--tune has no effect on softmax"},
           {{"bench", "op", "softmax", "--backward"},
            "--backward has no effect without --shape or --sweep"},
           {{"bench", "op", "softmax", "--shape", "n=2", "--causal"},
            "--causal has no effect on softmax"},
           {{"bench", "op", "softmax", "--shape", "n=2", "--layout", "nn"},
            "softmax has one layout alone"},
           {{"bench", "op", "softmax", "--shape", "n=2", "--plan", "--cold"},
            "--cold has no effect where nothing is run"},
           {{"bench", "op", "softmax", "--shape", "n=2", "--hardware", "h100", "--threads", "1"},
            "--threads has no effect with --hardware"},
           {{"bench", "op", "softmax", "--shape", "n=2", "--fit"},
            "[fit] expected one --sweep, got none"},
           {{"inspect", test_data("models/llama_fp32").string(), "--chunk", "8"},
            "--chunk has no effect without sliding-window layers"}})
    expect_refused(each.arguments, 2, each.message);
}

// A switch of a pass or an option that such graphs do not have on this device.
TEST_F(RefusalTest, SwitchesWithoutEffect) {
  const std::string model = test_data("models/llama_fp32").string();
  for (const char* program : {"train", "lab", "explain", "plan"}) {
    const std::vector<std::string> on_cpu = {program, "--preset", "tiny", "--device", "cpu"};
    auto expect = [&](const char* switches, const char* message) {
      std::vector<std::string> arguments = on_cpu;
      arguments.push_back(std::string("--pass=") + switches);
      expect_refused(arguments, 2, message);
    };
    expect("+capture", "[pass] capture has no effect on a CPU");
    expect("-branches", "[pass] branches has no effect on a CPU");
    expect("+transpose_operands", "[pass] transpose_operands has no effect on a CPU");
    expect("+pack_weights", "[pass] expected passes for training; pack_weights is for inference");
    expect("+fuse_glu,-fuse_glu", "[pass] fuse_glu is switched both on and off");
    expect("+fuse_glu,", "[pass] expected names separated by commas");
  }
  expect_refused(
      {"train", "--preset", "tiny", "--device", "cpu", "--dtype", "bf16", "--pass=-autocast_bf16"},
      2, "[pass] autocast_bf16 is switched both on and off");
  const auto refuse_fp16 = [&](std::vector<std::string> more, const char* message) {
    std::vector<std::string> all{"train", "--preset", "tiny", "--device", "cpu"};
    all.insert(all.end(), more.begin(), more.end());
    expect_refused(all, 2, message);
  };
  refuse_fp16({"--dtype", "fp8"}, "[dtype] expected fp32, tf32, bf16 or fp16");
  refuse_fp16({"--dtype", "fp16", "--pass", "+autocast_bf16"},
              "[pass] expected one of autocast_bf16 and autocast_f16");
  refuse_fp16({"--loss-scale", "8"}, "without --dtype fp16");
  refuse_fp16({"--dtype", "fp16", "--loss-scale", "3"}, "[loss-scale] expected a power of two");
  refuse_fp16({"--dtype", "fp16", "--loss-scale", "nan"}, "[loss-scale]");
  refuse_fp16({"--dtype", "fp16", "--loss-scale-interval", "0"}, "[loss-scale-interval]");
  expect_refused({"plan", "--preset", "tiny", "--hardware", "h100", "--dtype", "fp16"}, 2,
                 "GPUs have no kernel for it in f16; expected --dtype bf16");
  for (const std::vector<std::string>& each : std::vector<std::vector<std::string>>{
           {"logits", model, "--ids", "1"}, {"infer-lab", model}, {"plan", "--model", model}}) {
    std::vector<std::string> training = each, exact = each;
    training.insert(training.end(), {"--device", "cpu", "--pass", "+recompute"});
    expect_refused(training, 2, "[pass] expected passes for inference; recompute is for training");
    exact.insert(exact.end(), {"--device", "cpu", "--exact", "--pass", "+quantize_activations"});
    expect_refused(exact, 2, "[exact]");
  }
  expect_refused(
      {"plan", "--preset", "tiny", "--hardware", "h100", "--inference", "--pass=-pack_weights"}, 2,
      "[pass] pack_weights has no effect on a GPU");
  EXPECT_EQ(
      run({"plan", "--preset", "tiny", "--hardware", "h100", "--pass=-capture,+transpose_operands"})
          .code,
      0);
}

// Found after the training, a folder that is not empty would cost the run's results.
TEST_F(RefusalTest, OneFolderForTwoOutputs) {
  for (const char* save : {"both", "./both/", "both/model"})
    expect_refused({"train", "--preset", "tiny", "--steps", "2", "--out", "both", "--save", save},
                   2, "[save] expected a folder outside that of --out");
}

TEST_F(RefusalTest, ExplainAnswersOneQuestion) {
  expect_refused({"explain", "lab-out", "--json"}, 3, "lab-out");  // no such folder
  expect_refused({"explain", "lab-out", "--graph"}, 2, "excludes");
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
