// SPDX-License-Identifier: Apache-2.0
// From texts to a trained model: ridge data, and ridge train with data and checkpoints.
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "apps/program_run.h"

namespace ridge::apps {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class DataTest : public ProgramTest {
 protected:
  DataTest() {
    std::string text;
    for (int i = 0; i < 3000; ++i)
      text += fmt::format("Line {} of {} tells of {}.\n", i, i % 7, i * i);
    files::write_plain(folder_ / "a.txt", text);
    for (int i = 0; i < 400; ++i)
      lines_ +=
          json{{"text", fmt::format("Document {} has {} words.", i, i * 3)}, {"id", i}}.dump() +
          "\n";
    files::write_plain(folder_ / "b.jsonl", lines_);
  }
  json result(std::vector<std::string> arguments) const {
    arguments.emplace_back("--json");
    const Output output = run(arguments);
    EXPECT_EQ(output.code, 0) << output.err;
    return json::parse(output.out);
  }
  std::vector<std::string> tokenize(const std::string& file, const std::string& out) const {
    return {"data", "tokenize", file, "--tokenizer", tokenizer_, "--out", out};
  }
  // Lines "step ... loss ..." of a run on the data set "t".
  std::vector<std::string> train(std::vector<std::string> more, int code = 0) const {
    const Output output = run(train_line(std::move(more)));
    EXPECT_EQ(output.code, code) << output.err;
    return losses(output.out);
  }
  // The options in `more` replace those of the line.
  static std::vector<std::string> train_line(std::vector<std::string> more) {
    std::vector<std::string> line{"train", "--preset", "tiny", "--level",
                                  "fused", "--device", "cpu"};
    const std::vector<std::string> defaults{
        "--data", "t", "--threads", "1", "--seq-len", "16", "--batch-size", "1", "--steps", "12"};
    for (size_t i = 0; i < defaults.size(); i += 2)
      if (std::find(more.begin(), more.end(), defaults[i]) == more.end())
        line.insert(line.end(), {defaults[i], defaults[i + 1]});
    line.insert(line.end(), more.begin(), more.end());
    return line;
  }
  static std::vector<std::string> losses(const std::string& out) {
    const std::regex step("step +[0-9]+  (validation )?loss [0-9.]+");
    std::vector<std::string> all;
    for (std::sregex_iterator each(out.begin(), out.end(), step), end; each != end; ++each)
      all.push_back(each->str());
    return all;
  }

  const std::string tokenizer_ = test_data("models/tokenizers/gpt2");
  std::string lines_;
};

TEST_F(DataTest, TokenizeAndInspect) {
  json made = result(tokenize("b.jsonl", "t"));
  EXPECT_EQ(made["documents"], 400);
  EXPECT_EQ(made["read_bytes"], lines_.size());
  const json seen = result({"data", "inspect", "t", "--check", "--show", "5"});
  EXPECT_EQ(seen["ids"], made["ids"]);
  EXPECT_EQ(seen["documents"], 400);
  EXPECT_EQ(seen["text"].get<std::string>().substr(0, 3), "Doc");
  const Output text = run({"data", "inspect", "t", "--check"});
  EXPECT_NE(text.out.find("All hashes agree."), std::string::npos);
  expect_refused(tokenize("b.jsonl", "t"), 2, "has a complete data set already");
  std::vector<std::string> several = tokenize("a.txt", "both");
  several.insert(several.begin() + 2, "b.jsonl");
  several.insert(several.end(), {"--shard-tokens", "5000"});
  const json both = result(several);
  EXPECT_EQ(both["documents"], 401);
  EXPECT_EQ(both["shards"], 2);
}

// A run that ends at a fault of its input leaves whole shards; the file is mended, and it goes on
// inside the document.
TEST_F(DataTest, ARunThatWasEndedGoesOn) {
  std::string text;
  while (text.size() < 3'000'000) text += files::contents(folder_ / "a.txt");
  files::write_plain(folder_ / "large.txt", text + "x");
  const auto line = [&](const char* out) {
    std::vector<std::string> all = tokenize("large.txt", out);
    all.insert(all.end(), {"--shard-tokens", "100000"});
    return all;
  };
  const json whole = result(line("whole"));
  ASSERT_GT(whole["shards"], 3);
  const auto time = fs::last_write_time(folder_ / "large.txt");
  const auto write = [&](char last) {
    files::write_plain(folder_ / "large.txt", text + last);
    fs::last_write_time(folder_ / "large.txt", time);
  };
  write('\xff');
  EXPECT_EQ(run(line("part")).code, 3);
  const json index = json::parse(files::contents(folder_ / "part/index.json"));
  EXPECT_EQ(index["complete"], false);
  EXPECT_EQ(index["next"]["continues"], true);
  ASSERT_GT(index["shards"].size(), 1u);
  expect_refused(train_line({"--data", "part"}), 3, "the data set is incomplete");
  write('x');
  std::vector<std::string> other = line("part");
  other.emplace_back("--no-eos");
  expect_refused(other, 2, "that other files or options began");
  const Output again = run(line("part"));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.err.find("Going on after"), std::string::npos) << again.err;
  for (const auto& entry : fs::directory_iterator(folder_ / "whole")) {
    if (!entry.is_regular_file()) continue;
    EXPECT_TRUE(files::contents(entry.path()) ==
                files::contents(folder_ / "part" / entry.path().filename()))
        << entry.path();
  }
}

TEST_F(DataTest, BadFilesAreNamed) {
  auto refused = [&](const std::string& name, const std::string& bytes, const std::string& part) {
    files::write_plain(folder_ / name, bytes);
    const Output output = run(tokenize(name, name + ".out"));
    EXPECT_EQ(output.code, 3) << output.err;
    EXPECT_NE(output.err.find(part), std::string::npos) << output.err;
  };
  refused("empty.txt", "", "[empty.txt] the file is empty");
  refused("bytes.txt", "ab\xff", "[bytes.txt] expected UTF-8, found the byte 0xff at byte 2");
  refused("c.jsonl", "{\"text\": 1}", "[c.jsonl] line 1");
  refused("d.gz", "\x1f\x8b garbage", "[d.gz]");
  expect_refused(tokenize("missing", "t"), 3, "[missing] cannot open");
  expect_refused(tokenize(".", "t"), 3, "found a folder");
  fs::create_symlink("circle", folder_ / "circle");
  expect_refused(tokenize("circle", "t"), 3, "symbolic links");
}

TEST_F(DataTest, BadShardsAreNamedBeforeTheFirstStep) {
  result(tokenize("a.txt", "good"));
  const auto refused = [&](const std::function<void()>& damage, const std::string& part) {
    fs::remove_all(folder_ / "t");
    fs::copy(folder_ / "good", folder_ / "t", fs::copy_options::recursive);
    damage();
    const Output output = run(train_line({}));
    EXPECT_EQ(output.code, 3) << part << "\n" << output.err;
    EXPECT_NE(output.err.find(part), std::string::npos) << "expected " << part << "\n"
                                                        << output.err;
    EXPECT_EQ(output.out.find("step"), std::string::npos) << output.out;
  };
  const fs::path shard = folder_ / "t/shard-00000.bin";
  refused([&] { fs::resize_file(shard, 100); }, "[t/shard-00000.bin] expected");
  refused([&] { fs::resize_file(shard, fs::file_size(shard) + 2); },
          "[t/shard-00000.bin] expected");
  refused([&] { fs::resize_file(shard, 0); }, "[t/shard-00000.bin] the file is empty");
  refused([&] { fs::remove(shard); }, "[t/shard-00000.bin] cannot open");
  refused([&] { fs::remove(folder_ / "t/shard-00000.hashes"); },
          "[t/shard-00000.hashes] cannot open");
  refused([&] { fs::remove(folder_ / "t/index.json"); }, "[t/index.json] cannot open");
  refused(
      [&] {
        fs::remove(shard);
        fs::create_directory(shard);
      },
      "[t/shard-00000.bin] expected a file, found a folder");
  refused(
      [&] {
        fs::remove(shard);
        fs::create_symlink("shard-00000.bin", shard);
      },
      "[t/shard-00000.bin] cannot open: Too many levels of symbolic links");
  refused(
      [&] {
        std::string bytes = files::contents(shard);
        bytes[bytes.size() / 3] ^= 1;
        files::write_plain(shard, bytes);
      },
      "[t/shard-00000.bin] bytes 0 to 127066: expected the hash");
  // Root may read it all the same.
  if (::geteuid() != 0)
    refused([&] { fs::permissions(shard, fs::perms::none); },
            "[t/shard-00000.bin] cannot open: Permission denied");
}

TEST_F(DataTest, TrainingReadsDataValidatesAndSaves) {
  result(tokenize("a.txt", "t"));
  const std::vector<std::string> data = train(
      {"--val-data", "t", "--val-every", "5", "--val-batches", "4", "--lr", "0.01", "--save", "m"});
  EXPECT_EQ(data.size(), 12u + 3u);
  EXPECT_EQ(data[5].substr(0, 21), "step    5  validation");
  // The model takes the data's vocabulary and keeps its tokenizer.
  EXPECT_EQ(json::parse(files::contents(folder_ / "m/config.json"))["vocab_size"], 701);
  const Output text = run({"generate", "m", "Line", "--max-tokens", "3", "--device", "cpu"});
  EXPECT_EQ(text.code, 0) << text.err;
  // A text is tokenized at the start, with the same ids.
  const std::vector<std::string> line =
      train_line({"--data", "a.txt", "--tokenizer", tokenizer_, "--lr", "0.01"});
  std::vector<std::string> expected;
  for (const std::string& each : data)
    if (each.find("validation") == std::string::npos) expected.push_back(each);
  EXPECT_EQ(losses(run(line).out), expected);
  expect_refused(train_line({"--data", "a.txt"}), 2, "[tokenizer] expected --tokenizer");
  expect_refused(train_line({"--seq-len", "100000000"}), 2, "ids for a sequence");
  expect_refused(train_line({"--val-every", "3"}), 2, "without --val-data");
}

std::vector<json> lines_of(const fs::path& path) {
  std::vector<json> all;
  std::istringstream lines(files::contents(path));
  for (std::string each; std::getline(lines, each);)
    all.push_back(json::parse(each, nullptr, false));
  return all;
}

// The bits of each step's loss.
std::vector<double> exact_losses(const fs::path& folder) {
  std::vector<double> all;
  for (const json& each : lines_of(folder / "metrics.jsonl"))
    if (each.contains("loss")) all.push_back(each["loss"]);
  return all;
}

TEST_F(DataTest, SamplesDoNotChangeTheTraining) {
  result(tokenize("a.txt", "t"));
  for (const std::string passes : {"-merge_qkv", "+fuse_adamw,+fuse_rms_norm"}) {
    SCOPED_TRACE(passes);
    const std::string plain = "plain" + passes, sampled = "sampled" + passes;
    std::vector<std::string> options{"--pass", passes, "--lr", "0.01", "--log-dir", plain};
    train(options);
    options.back() = sampled;
    options.insert(options.end(),
                   {"--sample-every", "5", "--sample-prompt", "Line", "--sample-tokens", "7"});
    const Output output = run(train_line(options));
    EXPECT_EQ(output.code, 0) << output.err;
    EXPECT_NE(output.out.find("step    5  sample  Line"), std::string::npos) << output.out;
    EXPECT_EQ(exact_losses(folder_ / sampled), exact_losses(folder_ / plain));
    const std::vector<json> samples = lines_of(folder_ / sampled / "samples.jsonl");
    ASSERT_EQ(samples.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(samples[i]["step"], (std::vector<int>{5, 10, 12}[i]));
      EXPECT_EQ(samples[i]["prompt"], "Line");
      EXPECT_FALSE(samples[i].contains("fault")) << samples[i].dump();
      EXPECT_LE(samples[i]["ids"].size(), 7u);
      EXPECT_GE(samples[i]["ids"].size(), 1u);
    }
  }
}

// The text is what the saved model generates.
TEST_F(DataTest, ASampleIsTheTextOfTheSavedModel) {
  result(tokenize("a.txt", "t"));
  train({"--lr", "0.01", "--log-dir", "log", "--save", "m", "--sample-every", "100",
         "--sample-prompt", "Line 5", "--sample-tokens", "12", "--sample-temperature", "0"});
  const json text = result(
      {"generate", "m", "Line 5", "--max-tokens", "12", "--device", "cpu", "--threads", "1"});
  const std::vector<json> samples = lines_of(folder_ / "log/samples.jsonl");
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples[0]["ids"], text["ids"]);
  EXPECT_EQ(samples[0]["text"], text["text"]);
  EXPECT_EQ(samples[0]["finish_reason"], text["finish_reason"]);
}

TEST_F(DataTest, SamplesAreRefusedWithoutATokenizer) {
  result(tokenize("a.txt", "t"));
  fs::copy(folder_ / "t/shard-00000.bin", folder_ / "ids.bin");
  expect_refused(train_line({"--data", "ids.bin", "--sample-every", "5"}), 2,
                 "[sample-every] expected data or a model with a tokenizer");
  expect_refused(train_line({"--sample-every", "-1"}), 2, "[sample-every] expected at least 0");
  expect_refused(train_line({"--sample-tokens", "9"}), 2, "without --sample-every");
  expect_refused(train_line({"--sample-every", "5", "--sample-tokens", "0"}), 2, "[sample-tokens]");
  expect_refused(train_line({"--sample-every", "5", "--sample-temperature", "-1"}), 2,
                 "[temperature]");
  expect_refused({"train", "--preset", "tiny", "--sample-every", "5"}, 2, "without --data");
  std::string prompt;
  for (int i = 0; i < 3000; ++i) prompt += "Line ";
  expect_refused(train_line({"--sample-every", "5", "--sample-prompt", prompt}), 2,
                 "[sample-prompt] expected less than");
}

TEST_F(DataTest, NumericsDoNotChangeTheTraining) {
  result(tokenize("a.txt", "t"));
  for (const char* dtype : {"fp32", "bf16", "fp16"}) {
    SCOPED_TRACE(dtype);
    const std::string plain = std::string(dtype) + "-plain",
                      counted = std::string(dtype) + "-counted";
    std::vector<std::string> options{"--dtype", dtype, "--lr", "0.01", "--log-dir", plain};
    train(options);
    options.back() = counted;
    options.insert(options.end(), {"--numerics", "5"});
    const Output output = run(train_line(options));
    EXPECT_EQ(output.code, 0) << output.err;
    EXPECT_NE(output.out.find("numbers of step 4"), std::string::npos) << output.out;
    EXPECT_NE(output.out.find("second moments"), std::string::npos) << output.out;
    EXPECT_EQ(exact_losses(folder_ / counted), exact_losses(folder_ / plain));
    const std::vector<json> reports = lines_of(folder_ / counted / "numerics.jsonl");
    ASSERT_EQ(reports.size(), 3u);
    EXPECT_EQ(reports[0]["step"], 4);
    EXPECT_EQ(reports[2]["step"], 11);
    EXPECT_EQ(reports[0]["loss_scale"].is_null(), std::string(dtype) != "fp16");
    std::set<std::string> kinds, types;
    for (const json& row : reports[0]["rows"]) {
      kinds.insert(row["kind"]);
      if (row["kind"] == "activations") types.insert(row["dtype"]);
      EXPECT_EQ(row["not_finite"], 0) << row.dump();
      EXPECT_GT(row["count"], 0);
    }
    EXPECT_EQ(kinds,
              (std::set<std::string>{"weights", "gradients", "first moments", "second moments",
                                     "activations", "activation gradients"}));
    EXPECT_EQ(types.contains("f16"), std::string(dtype) == "fp16");
    EXPECT_EQ(types.contains("bf16"), std::string(dtype) == "bf16");
  }
  expect_refused(train_line({"--numerics", "-1"}), 2, "[numerics] expected at least 0");
}

// Validation, guard, checkpoints, numerics, samples and profiling work together and change no loss,
// also where a run is resumed.
TEST_F(DataTest, AllObserversTogetherChangeNoLoss) {
  result(tokenize("a.txt", "t"));
  const std::vector<std::string> training{"--lr", "0.01", "--spike-guard", "skip", "--log-dir"};
  train(
      {training[0], training[1], training[2], training[3], "--steps", "16", training[4], "plain"});
  const auto observed = [&](const char* steps, const char* log, std::vector<std::string> more) {
    std::vector<std::string> line = training;
    line.insert(line.end(), {log, "--steps",       steps, "--val-data",     "t", "--val-every",
                             "5", "--val-batches", "2",   "--checkpoints",  "c", "--save-every",
                             "4", "--numerics",    "6",   "--sample-every", "7", "--sample-tokens",
                             "3", "--profile"});
    line.insert(line.end(), more.begin(), more.end());
    const Output output = run(train_line(line));
    EXPECT_EQ(output.code, 0) << output.err;
    return output.out;
  };
  const std::string first = observed("9", "first", {"--out", "report"});
  for (const char* part : {"step    5  validation loss", "step    7  sample", "numbers of step 5",
                           "numbers of step 8", "  instrumented", "matmul"})
    EXPECT_NE(first.find(part), std::string::npos) << part << " in\n" << first;
  const json summary = json::parse(files::contents(folder_ / "report/performance_summary.json"));
  EXPECT_FALSE(summary["runs"][0]["operations"]["by_op"].empty());
  expect_refused(train_line({"--lr", "0.01", "--spike-guard", "skip", "--steps", "10",
                             "--checkpoints", "c", "--resume", "--profile"}),
                 2, "expected at least 11: after the checkpoint of step 9");
  observed("16", "second", {"--resume"});
  const auto plain = exact_losses(folder_ / "plain"), before = exact_losses(folder_ / "first"),
             after = exact_losses(folder_ / "second");
  ASSERT_EQ(plain.size(), 16u);
  ASSERT_EQ(before.size(), 9u);
  ASSERT_EQ(after.size(), 7u);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), plain.begin()));
  EXPECT_TRUE(std::equal(after.begin(), after.end(), plain.begin() + 9));
}

// The scale, its count of good steps and the skipped steps are in the checkpoint.
TEST_F(DataTest, Fp16ResumesBitByBit) {
  result(tokenize("a.txt", "t"));
  const std::vector<std::string> fp16{
      "--dtype", "fp16",   "--lr", "0.01", "--loss-scale", "16777216", "--loss-scale-interval",
      "4",       "--clip", "1"};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), fp16.begin(), fp16.end());
    return more;
  };
  const Output whole = run(train_line(with({"--log-dir", "whole"})));
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_NE(whole.out.find("skipped: gradients overflowed, loss scale now 8388608"),
            std::string::npos)
      << whole.out;
  EXPECT_NE(whole.out.find("steps were skipped because gradients overflowed"), std::string::npos);
  train(with({"--steps", "5", "--checkpoints", "c"}));
  train(with({"--checkpoints", "c", "--resume", "--log-dir", "rest"}));
  const std::vector<json> all = lines_of(folder_ / "whole/metrics.jsonl"),
                          rest = lines_of(folder_ / "rest/metrics.jsonl");
  ASSERT_EQ(all.size(), 12u);
  ASSERT_EQ(rest.size(), 7u);
  int64_t skipped = 0;
  for (size_t i = 0; i < 12; ++i) {
    skipped += all[i].contains("skipped");
    EXPECT_EQ(all[i]["overflows"], skipped);
    EXPECT_EQ(all[i].contains("gradient_norm"), !all[i].contains("skipped"));
    if (i < 5) continue;
    EXPECT_EQ(rest[i - 5]["loss"], all[i]["loss"]);
    EXPECT_EQ(rest[i - 5]["loss_scale"], all[i]["loss_scale"]);
  }
  EXPECT_GT(skipped, 0);
  const json state = json::parse(files::contents(folder_ / "c/step-00000012/state.json"));
  EXPECT_EQ(state["loss_scale"]["skipped_steps"], skipped);
  EXPECT_EQ(state["loss_scale"]["scale"], all[11]["loss_scale"]);
}

TEST_F(DataTest, AResumedRunPrintsTheLossesOfTheUnbrokenOne) {
  result(tokenize("a.txt", "t"));
  const std::vector<std::string> whole = train({"--lr", "0.01"});
  std::vector<std::string> options{"--lr", "0.01", "--checkpoints", "c", "--save-every", "3"};
  std::vector<std::string> first = options;
  first.insert(first.end(), {"--steps", "7"});
  EXPECT_EQ(train(first), std::vector<std::string>(whole.begin(), whole.begin() + 7));
  expect_refused(train_line(options), 2, "--resume goes on after the newest");
  options.emplace_back("--resume");
  EXPECT_EQ(train(options), std::vector<std::string>(whole.begin() + 7, whole.end()));
  // The newest is damaged: the one before is used.
  fs::resize_file(folder_ / "c/step-00000012/model.safetensors", 1000);
  const Output again = run(train_line(options));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.err.find("Refused c/step-00000012: "), std::string::npos) << again.err;
  EXPECT_NE(again.err.find("Resuming after step 9"), std::string::npos) << again.err;
  EXPECT_EQ(losses(again.out), std::vector<std::string>(whole.begin() + 9, whole.end()));
  for (const auto& entry : fs::directory_iterator(folder_ / "c"))
    fs::remove(entry.path() / "manifest.json");
  expect_refused(train_line(options), 3, "expected a whole checkpoint in c, found none");
}

TEST_F(DataTest, DocumentsArePackedWithBoundaries) {
  result(tokenize("b.jsonl", "t"));
  const std::vector<std::string> windows = train({"--lr", "0.01"});
  const std::vector<std::string> packed{"--lr",       "0.01", "--pack",      "documents",
                                        "--val-data", "t",    "--val-every", "6"};
  const Output whole = run(train_line(packed));
  EXPECT_EQ(whole.code, 0) << whole.err;
  EXPECT_NE(losses(whole.out)[0], windows[0]);
  EXPECT_NE(whole.out.find("attention stayed inside documents: "), std::string::npos) << whole.out;
  // A text has the same documents as its data set.
  std::vector<std::string> text = packed;
  for (std::string& each : text)
    if (each == "t") each = "b.jsonl";
  text.insert(text.end(), {"--data", "b.jsonl", "--tokenizer", tokenizer_});
  EXPECT_EQ(train(text), losses(whole.out));
  // Resumed, with the log's share of attended keys in each line.
  std::vector<std::string> options = packed;
  options.insert(options.end(), {"--checkpoints", "c", "--save-every", "3", "--log-dir", "log"});
  std::vector<std::string> first = options;
  first.insert(first.end(), {"--steps", "6"});
  std::vector<std::string> both = train(first);
  options.emplace_back("--resume");
  for (const std::string& each : train(options)) both.push_back(each);
  EXPECT_EQ(both, losses(whole.out));
  const std::string log = files::contents(folder_ / "log/metrics.jsonl");
  const json line = json::parse(log.substr(0, log.find('\n')));
  EXPECT_GT(line["attended"], 0.1);
  EXPECT_LT(line["attended"], 1);
  options = {"--checkpoints", "c", "--resume", "--steps", "15"};
  const Output other = run(train_line(options));
  EXPECT_NE(other.err.find("note: pack was \"documents\" and is \"windows\""), std::string::npos)
      << other.err;
  expect_refused(train_line({"--pack", "rows"}), 2,
                 "[pack] expected windows or documents, got \"rows\"");
  expect_refused({"train", "--pack", "documents"}, 2, "without --data");
  files::write_plain(folder_ / "other.bin", std::string(2000, '\1'));
  expect_refused(train_line({"--data", "other.bin", "--pack", "documents"}), 2,
                 "[pack] expected an index of documents, other.bin has none");
}

TEST_F(DataTest, SignalsSave) {
  result(tokenize("a.txt", "t"));
  for (const int last : {SIGTERM, SIGHUP}) {
    const std::string folder = "c" + std::to_string(last);
    const pid_t child =
        start(train_line({"--checkpoints", folder, "--steps", "100000", "--save-every", "100000"}));
    await("step    2");
    ::kill(child, SIGUSR1);
    for (int i = 0; i < 6000 && !fs::exists(folder_ / folder); ++i) ::usleep(1000);
    ::usleep(200'000);
    ::kill(child, last);
    const Output output = finish(child);
    EXPECT_EQ(output.code, 128 + last) << output.err;
    size_t saved = 0;
    for (const auto& entry : fs::directory_iterator(folder_ / folder))
      saved += fs::exists(entry.path() / "manifest.json");
    EXPECT_EQ(saved, 2u) << last;
  }
}

}  // namespace
}  // namespace ridge::apps
