// SPDX-License-Identifier: Apache-2.0
// 200 steps of training next to PyTorch: the same weights, windows, order, schedule and AdamW
// (tools/train_peer.py). RIDGE_PEER_PYTHON is a Python with torch, numpy and safetensors; otherwise
// pip fetches them.
#include <algorithm>
#include <cmath>

#include "apps/finetune_case.h"
#include "peer_python.h"

namespace ridge::apps {
namespace {

using nlohmann::json;

constexpr int64_t kFirst = 20;
constexpr double kAllowedFirst = 1e-5;

double largest(const std::vector<double>& a, const std::vector<double>& b, int64_t count) {
  double most = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    most = std::max(most, std::abs(a.at(at) - b.at(at)));
  }
  return most;
}

class PyTorchTest : public FinetuneCase {
 protected:
  void succeed(std::vector<std::string> arguments) const {
    const Output output = run(std::move(arguments));
    ASSERT_EQ(output.code, 0) << output.err;
  }
  std::vector<double> peer(const std::string& python, const std::string& more) const {
    const std::string said = output_of(fmt::format(
        "cd '{}' && '{}' '{}' init t {} --steps 200 {} 2>peer.txt", folder_.path().string(), python,
        source_file("tools/train_peer.py").string(), fmt::join(kOptions, " "), more));
    EXPECT_FALSE(said.empty()) << files::contents(folder_ / "peer.txt");
    const json parsed = json::parse(said, nullptr, false);
    if (!parsed.is_object()) return {};
    version_ = parsed["torch"];
    return parsed["losses"].get<std::vector<double>>();
  }

  static inline const std::vector<std::string> kOptions = {
      "--seq-len", "64", "--batch-size", "4",   "--lr",       "3e-4",
      "--clip",    "1",  "--lr-warmup",  "100", "--schedule", "cosine"};
  mutable std::string version_;
};

// PyTorch's losses with one and with two threads may be the same bits, which leaves no room for any
// other order of sums. Its run in fp64 shows the effect of rounding: Ridge may be twice as far from
// it as PyTorch in fp32 is.
TEST_F(PyTorchTest, LossesDifferByRounding) {
  const std::string python =
      python_with("torch, numpy, safetensors", "torch numpy safetensors", folder_.path());
  if (python.empty()) GTEST_SKIP() << "pip could not fetch torch";
  files::write_plain(folder_ / "a.txt", files::contents(test_data("text/corpus.en")));
  succeed({"tokenizer", "train", "a.txt", "--vocab-size", "1024", "--out", "tokenizer"});
  succeed({"data", "tokenize", "a.txt", "--tokenizer", "tokenizer", "--out", "t"});
  succeed({"train", "--preset", "tiny", "--data", "t", "--lr", "0", "--weight-decay", "0",
           "--steps", "1", "--batch-size", "1", "--seq-len", "8", "--device", "cpu", "--save",
           "init"});
  std::vector<std::string> line{"train", "--model",  "init", "--data",    "t",  "--steps",
                                "200",   "--device", "cpu",  "--log-dir", "log"};
  line.insert(line.end(), kOptions.begin(), kOptions.end());
  succeed(line);
  const std::vector<double> ours = losses("log"), one = peer(python, "--threads 1"),
                            two = peer(python, "--threads 2"),
                            exact = peer(python, "--threads 2 --dtype fp64");
  for (const auto& each : {ours, one, two, exact}) ASSERT_EQ(each.size(), 200u);
  const double threads = largest(one, two, 200),
               rounding = std::max(largest(one, exact, 200), largest(two, exact, 200));
  fmt::print(
      "torch {}: loss {:.5f} to {:.5f}; of 200 steps: one and two threads differ by {:.2e}, fp32 and fp64 by {:.2e}; Ridge "
      "differs from fp64 by {:.2e}, from fp32 by {:.2e}, in the first {} by {:.2e}\n",
      version_, ours.front(), ours.back(), threads, rounding, largest(ours, exact, 200),
      largest(ours, one, 200), kFirst, largest(ours, one, kFirst));
  EXPECT_LT(largest(ours, one, kFirst), kAllowedFirst);
  EXPECT_LT(largest(ours, exact, kFirst), kAllowedFirst);
  EXPECT_LE(largest(ours, exact, 200), 2 * std::max(threads, rounding));
  EXPECT_LT(ours.back(), ours.front() - 1);
}

}  // namespace
}  // namespace ridge::apps
