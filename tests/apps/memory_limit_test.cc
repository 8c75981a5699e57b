// SPDX-License-Identifier: Apache-2.0
// Runs with little memory: each ends by itself, with an answer or with one message.
#include "apps/program_run.h"

namespace ridge::apps {
namespace {

using MemoryLimitTest = ProgramTest;

// Whether the loader, or a library's initialization, could not bring the program to its main
// function. A library that cannot even allocate an exception calls std::terminate.
bool failed_to_load(const Output& output) {
  constexpr int kLoader = 127;
  const bool was_killed = output.code == 128 + SIGSEGV || output.code == 128 + SIGBUS;
  return output.code == kLoader || (was_killed && output.err.empty()) ||
         output.err.find("without an active exception") != std::string::npos;
}

void expect_end(const Output& output, const std::string& where) {
  EXPECT_TRUE(output.code == 0 || (output.code >= 2 && output.code <= 4))
      << where << " ended with " << output.code << "\n"
      << output.err;
  if (output.code == 0) return;
  const size_t message = output.err.find("ridge: ");
  EXPECT_NE(message, std::string::npos) << where << "\n" << output.err;
  EXPECT_EQ(output.err.find("ridge: ", message + 1), std::string::npos) << output.err;
}

TEST_F(MemoryLimitTest, EveryRunEndsWithAnAnswerOrAMessage) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer needs terabytes of addresses";
#endif
  // With more threads, OpenMP ends some in a small parallel region and starts them again in the
  // next.
  ::setenv("OMP_NUM_THREADS", "2", 1);
  const std::string model = test_data("models/llama_fp32").string();
  files::write_plain(folder_ / "text", "one two three two one");
  const std::vector<std::vector<std::string>> commands{
      {"train", "--preset", "tiny", "--steps", "2", "--warmup", "0"},
      {"logits", model, "--ids", "1,2,3"},
      {"bench", "model", model, "--prompt-tokens", "4", "--tokens", "2", "--repeats", "1"},
      {"plan", "--preset", "small", "--hardware", "h100"},
      {"explain", "--preset", "tiny", "--graph"},
      {"inspect", model},
      {"convert", model, "made.gguf", "--type", "q8_0", "--force"},
      {"tokenizer", "train", "text", "--vocab-size", "260", "--out", "made", "--force"},
  };
  int loaded = 0, refused = 0;
  for (int64_t mib :
       {20, 40, 48, 52, 56, 60, 64, 68, 72, 80, 96, 128, 160, 176, 188, 200, 320, 640}) {
    const RunLimits limits{.address_bytes = mib << 20};
    if (failed_to_load(run({"--version"}, limits))) continue;
    ++loaded;
    for (const std::vector<std::string>& command : commands) {
      const Output output = run(command, limits);
      expect_end(output, command[0] + " in " + std::to_string(mib) + " MiB");
      refused += output.code == 4 ? 1 : 0;
    }
  }
  ::unsetenv("OMP_NUM_THREADS");
  EXPECT_GT(loaded, 3);
  EXPECT_GT(refused, 3);
}

// The GEMM library makes its kernels in the first GEMM, on any thread, where nothing can catch that
// memory is short. The last megabytes before a run succeeds are where that happens.
TEST_F(MemoryLimitTest, NoStepBelowTheLeastMemoryOfARunIsASignal) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer needs terabytes of addresses";
#endif
  ::setenv("OMP_NUM_THREADS", "2", 1);
  constexpr int64_t kStep = int64_t{256} << 10, kSteps = 40;
  std::string ids = "1";
  for (int i = 1; i < 150; ++i) ids += ",1";  // many rows take other kernels than a few
  const std::vector<std::string> command{"perplexity", test_data("models/llama_fp32").string(),
                                         "--ids", ids};
  auto in = [&](int64_t bytes) { return run(command, {.address_bytes = bytes}); };
  int64_t fails = int64_t{40} << 20, works = int64_t{640} << 20;
  ASSERT_EQ(in(works).code, 0);
  while (works - fails > kStep) {
    const int64_t middle = (works + fails) / 2;
    (in(middle).code == 0 ? works : fails) = middle;
  }
  for (int64_t step = 0; step < kSteps; ++step) {
    const int64_t bytes = works - step * kStep;
    expect_end(in(bytes), fmt::format("{} in {} bytes", command[0], bytes));
  }
  ::unsetenv("OMP_NUM_THREADS");
}

TEST_F(MemoryLimitTest, AFileLargerThanTheAddressesIsNoBadFile) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer needs terabytes of addresses";
#endif
  files::write_plain(folder_ / "large.gguf", "GGUF");
  std::filesystem::resize_file(folder_ / "large.gguf", uintmax_t{600} << 20);
  const Output output = run({"inspect", "large.gguf"}, {.address_bytes = int64_t{300} << 20});
  EXPECT_EQ(output.code, 4) << output.err;
  EXPECT_NE(output.err.find("large.gguf"), std::string::npos) << output.err;
}

}  // namespace
}  // namespace ridge::apps
