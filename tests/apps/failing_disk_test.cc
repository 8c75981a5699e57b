// SPDX-License-Identifier: Apache-2.0
// Checkpoints on a disk that fails: the order of writes and syncs, limits of size, and calls that
// fail.
#include <map>
#include <optional>

#include "apps/checkpoint_case.h"

namespace ridge::apps {
namespace {

namespace fs = std::filesystem;

using FailingDiskTest = CheckpointCase;

std::string parent_of(const std::string& path) { return fs::path(path).parent_path(); }
std::string name_of(const std::string& path) { return fs::path(path).filename(); }

// A power failure may lose what is not synced, and a rename may reach the disk before what was
// written earlier.
class DiskModel {
 public:
  void write(const std::string& path) { unsynced_.insert(path); }
  void sync(const std::string& path) {
    unsynced_.erase(path);
    changed_folders_.erase(path);
  }
  // A name in the folder is new.
  void change(const std::string& folder) { changed_folders_.insert(folder); }
  bool is_synced(const std::string& file) const { return !unsynced_.contains(file); }
  bool is_unchanged(const std::string& folder) const { return !changed_folders_.contains(folder); }
  bool has_unsynced_in(const std::string& folder) const {
    for (const std::string& each : unsynced_)
      if (each.starts_with(folder + "/")) return true;
    return false;
  }

 private:
  std::set<std::string> unsynced_, changed_folders_;
};

TEST_F(FailingDiskTest, WritesAndSyncsComeInOrder) {
  copy_checkpoints();
  ASSERT_EQ(resume(calls("log")).code, 0);
  const std::string checkpoints = (folder_ / "c").string();
  DiskModel disk;
  std::vector<std::string> inside;  // the files in the order in which they got their names
  int folders = 0, removed = 0;
  for (const auto& call : logged("log")) {
    const std::string &what = call.at(0), &path = call.at(1);
    if (what == "write") disk.write(path);
    if (what == "fsync") disk.sync(path);
    if (what != "rename") continue;
    const std::string& to = call.at(2);
    const bool is_checkpoint = parent_of(to) == checkpoints && name_of(to).starts_with("step-");
    const bool is_removal = parent_of(path) == checkpoints && name_of(path).starts_with("step-");
    EXPECT_TRUE(disk.is_synced(path)) << path << " is renamed to " << to << " and not synced";
    if (is_checkpoint) {
      ++folders;
      EXPECT_EQ(name_of(inside.back()), "manifest.json") << "the manifest comes last";
      EXPECT_FALSE(disk.has_unsynced_in(path)) << "a file of the checkpoint is not synced";
      EXPECT_TRUE(disk.is_unchanged(path)) << "the checkpoint's folder is not synced";
    } else if (is_removal) {
      ++removed;
      EXPECT_EQ(folders, 1) << "an old checkpoint goes before the new one is there";
      EXPECT_TRUE(disk.is_unchanged(checkpoints)) << "... or before its name is on the disk";
    } else {
      if (name_of(to) == "manifest.json") {
        EXPECT_FALSE(disk.has_unsynced_in(parent_of(to))) << "the manifest comes after the data";
      }
      inside.push_back(to);
    }
    disk.change(parent_of(to));
  }
  EXPECT_EQ(folders, 1);
  EXPECT_EQ(removed, 1);
  EXPECT_GE(inside.size(), 5u);
}

// Samples of what the slow test does for every call.
TEST_F(FailingDiskTest, ACallThatFailsLosesNothing) {
  copy_checkpoints();
  ASSERT_EQ(resume(calls("log")).code, 0);
  const int count = static_cast<int>(logged("log").size());
  ASSERT_GT(count, 30);
  const char* kHows[] = {"EIO", "KILL", "ENOSPC", "SHORT"};
  for (int n = 1, i = 0; n <= count; n += 7, ++i) expect_survives(n, kHows[i % 4]);
}

TEST_F(FailingDiskTest, AFullDiskEndsTheTrainingWithTheReason) {
  // The limit is one of the message, too.
  for (const int64_t most : {0, 400, 5'000, 100'000}) {
    copy_checkpoints();
    const Output output = resume({.file_bytes = most});
    EXPECT_EQ(output.code, 1) << most << "\n" << output.err;
    if (most > 0) {
      EXPECT_NE(output.err.find("File too large"), std::string::npos) << output.err;
    }
    expect_whole(fmt::format("at most {} bytes", most));
  }
}

TEST_F(FailingDiskTest, ADamagedCheckpointIsPassedOver) {
  const fs::path newest = folder_ / "c/step-00000004";
  const std::map<std::string, std::function<void()>> damages = {
      {"a shard that was cut", [&] { fs::resize_file(newest / "moments.safetensors", 1000); }},
      {"a bit that fell",
       [&] {
         std::string bytes = files::contents(newest / "model.safetensors");
         bytes[bytes.size() / 2] ^= 4;
         files::write_plain(newest / "model.safetensors", bytes);
       }},
      {"a manifest that is missing", [&] { fs::remove(newest / "manifest.json"); }},
      {"a file that is missing", [&] { fs::remove(newest / "state.json"); }},
      {"an empty folder",
       [&] {
         fs::remove_all(newest);
         fs::create_directory(newest);
       }},
      {"a manifest of zeros",
       [&] { files::write_plain(newest / "manifest.json", std::string(500, '\0')); }}};
  for (const auto& [what, damage] : damages) {
    copy_checkpoints();
    damage();
    const Output output = resume();
    EXPECT_EQ(output.code, 0) << what << "\n" << output.err;
    EXPECT_NE(output.err.find("Refused c/step-00000004"), std::string::npos) << output.err;
    EXPECT_NE(output.err.find("Resuming after step 2"), std::string::npos) << output.err;
    expect_whole(what);
    // Without one before it, training does not begin anew over it.
    copy_checkpoints();
    fs::remove_all(folder_ / "c/step-00000002");
    damage();
    const Output alone = resume();
    EXPECT_EQ(alone.code, 3) << what << "\n" << alone.err;
    EXPECT_NE(alone.err.find("expected a whole checkpoint"), std::string::npos) << alone.err;
  }
}

TEST_F(FailingDiskTest, AdaptersOfOtherWeightsAreAnError) {
  const auto tune = [&](int64_t steps) {
    std::vector<std::string> all = line("c", steps, {"--resume"});
    all[1] = "--model";
    all[2] = "base";
    all[4] = "-tune_gemm,+lora";
    return all;
  };
  succeed(line("trained", 2, {"--save", "base"}));
  succeed(tune(2));
  succeed(tune(4));
  const std::string before = files::contents(folder_ / "c/step-00000004/adapter_model.safetensors");
  // The same model elsewhere is the same base.
  fs::rename(folder_ / "base", folder_ / "moved");
  fs::create_symlink("moved", folder_ / "base");
  succeed(tune(4));
  // One weight is another.
  std::string bytes = files::contents(folder_ / "moved/model.safetensors");
  bytes[bytes.size() - 2] ^= 1;
  files::write_plain(folder_ / "moved/model.safetensors", bytes);
  const Output output = run(tune(6));
  EXPECT_EQ(output.code, 3) << output.err;
  EXPECT_NE(output.err.find("expected adapters of a model whose weights have the hash"),
            std::string::npos)
      << output.err;
  EXPECT_EQ(files::contents(folder_ / "c/step-00000004/adapter_model.safetensors"), before);
}

}  // namespace
}  // namespace ridge::apps
