// SPDX-License-Identifier: Apache-2.0
// A training that Ctrl-C ended goes on with the command that it printed, and replaces the model
// that it saved then, but no other.
#include "apps/checkpoint_case.h"

namespace ridge::apps {
namespace {

class InterruptedCheckpoints : public CheckpointCase {
 protected:
  // Interrupts the training when it has a checkpoint that was not there before.
  Output interrupted(const std::vector<std::string>& arguments) const {
    const std::set<std::string> before = checkpoints();
    const pid_t child = start(arguments);
    for (int i = 0; i < 60'000 && checkpoints() == before; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ::kill(child, SIGINT);
    return finish(child);
  }
  std::set<std::string> checkpoints() const {
    std::set<std::string> names;
    std::error_code error;
    for (std::filesystem::directory_iterator each(folder_ / "c", error), end; !error && each != end;
         each.increment(error))
      if (const std::string name = each->path().filename(); name.starts_with("step-"))
        names.insert(name);
    return names;
  }
  // The arguments of the command that the output says goes on.
  static std::vector<std::string> command_of(const Output& output) {
    const std::string mark = "To go on, run: ridge ";
    const size_t begin = output.err.find(mark);
    EXPECT_NE(begin, std::string::npos) << output.err;
    if (begin == std::string::npos) return {};
    const size_t end = output.err.find('\n', begin);
    std::istringstream words(output.err.substr(begin + mark.size(), end - begin - mark.size()));
    return {std::istream_iterator<std::string>(words), std::istream_iterator<std::string>()};
  }
  void expect_saved_newest() const {
    const std::string newest = *checkpoints().rbegin();
    for (const auto& each : std::filesystem::directory_iterator(folder_ / "model"))
      EXPECT_EQ(files::contents(each.path()),
                files::contents(folder_ / "c" / newest / each.path().filename()))
          << each.path();
  }
};

TEST_F(InterruptedCheckpoints, GoOnWithTheCommandThatIsPrinted) {
  std::vector<std::string> command =
      line("c", 1'000'000, {"--save", "model", "--log-dir", "log", "--out", "run"});
  for (int i = 0; i < 3; ++i) {
    const Output output = interrupted(command);
    EXPECT_EQ(output.code, 128 + SIGINT) << output.err;
    EXPECT_EQ(output.err.find("Resuming after step") != std::string::npos, i > 0) << output.err;
    command = command_of(output);
    EXPECT_EQ(std::count(command.begin(), command.end(), "--resume"), 1);
    EXPECT_EQ(std::count(command.begin(), command.end(), "--force"), 1);
    expect_saved_newest();
  }
}

TEST_F(InterruptedCheckpoints, ReplaceNoOtherModel) {
  copy_checkpoints();
  std::filesystem::create_directory(folder_ / "model");
  for (const char* name : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(folder_ / "c/step-00000004" / name, folder_ / "model" / name);
  const std::string refusal = "[model] expected a new or an empty folder";
  expect_refused(line("c2", 6, {"--save", "model"}), 2, refusal);  // it does not go on
  files::write_plain(folder_ / "model/notes", "mine");
  expect_refused(line("c", 6, {"--resume", "--save", "model"}), 2, refusal);
  std::filesystem::remove(folder_ / "model/notes");
  std::string weights = files::contents(folder_ / "model/model.safetensors");
  weights.back() ^= 1;
  files::write_plain(folder_ / "model/model.safetensors", weights);
  expect_refused(line("c", 6, {"--resume", "--save", "model"}), 2, refusal);
  weights.back() ^= 1;
  files::write_plain(folder_ / "model/model.safetensors", weights);
  succeed(line("c", 6, {"--resume", "--save", "model"}));
  expect_saved_newest();
}

TEST_F(InterruptedCheckpoints, SayWhatIsMissingWithoutThem) {
  const pid_t child =
      start({"train", "--config", "config.json", "--device", "cpu", "--threads", "1", "--data", "t",
             "--seq-len", "8", "--batch-size", "1", "--steps", "1000000"});
  await("step    2");
  ::kill(child, SIGINT);
  EXPECT_NE(finish(child).err.find("Without --checkpoints, this training cannot go on"),
            std::string::npos);
}

}  // namespace
}  // namespace ridge::apps
