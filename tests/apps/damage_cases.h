// SPDX-License-Identifier: Apache-2.0
// The program's files and caches with seeded damage, and the tests of them, for the programs of
// unit tests and of slow tests. Each includes this once and says how many cases it tries.
#pragma once

#include <sys/stat.h>

#include "apps/foreign_files.h"
#include "files/damage.h"
#include "files/json.h"

namespace ridge::apps {

struct DamageRounds {
  uint32_t files;  // rounds for each file
  uint32_t tuning;
};
extern const DamageRounds kRounds;

class DamageCases : public ForeignFiles {
 protected:
  static std::string damaged(const ForeignFile& file, uint32_t seed) {
    files::Damage damage(seed);
    if (!file.path.ends_with(".json")) {  // behind its header, a file of weights has no structure
      constexpr size_t kHeader = 4096;
      return damage.bytes(file.good.substr(0, kHeader)) + file.good.substr(kHeader);
    }
    return seed % 2 == 0 ? damage.bytes(file.good)
                         : damage.document(nlohmann::json::parse(file.good));
  }

  void try_files(const std::vector<ForeignFile>& all, uint32_t rounds) {
    for (const ForeignFile& file : all) {
      expect_fine(file);
      for (uint32_t seed = 0; seed < rounds; ++seed) {
        SCOPED_TRACE(fmt::format("{} with damage of seed {}", file.path, seed));
        expect_answers(file, damaged(file, seed));
      }
      files::write_plain(folder_ / file.path, file.good);
    }
  }

  // The choices of GEMMs that a run keeps. Whatever is in their place, a run works and says if it
  // could not use them. It replaces a file, but not a pipe.
  void try_tuning(uint32_t rounds) {
    const std::string cache = folder_ / "cache";
    const std::filesystem::path path = folder_ / "cache/ridge/gemm-tuning.json";
    const std::vector<std::string> train{
        "train", "--preset", "tiny",     "--steps",      "1", "--warmup",  "0", "--threads",
        "1",     "--level",  "compiled", "--batch-size", "1", "--seq-len", "16"};
    ASSERT_EQ(run(train, {.cache = cache}).code, 0);
    const ForeignFile file{path, files::contents(path), {}};
    auto expect_works = [&](bool is_said) {
      const Output output = run(train, {.cache = cache});
      EXPECT_EQ(output.code, 0) << output.err;
      EXPECT_EQ(output.err.find("GEMMs are measured again") != std::string::npos, is_said)
          << output.err;
    };
    expect_works(false);
    for (uint32_t seed = 0; seed < rounds; ++seed) {
      const std::string bad = damaged(file, seed);
      SCOPED_TRACE(fmt::format("damage of seed {}", seed));
      files::write_plain(path, bad);
      expect_works(!is_tuning(bad));
      expect_works(false);
      files::write_plain(path, file.good);
    }
    std::filesystem::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    expect_works(true);
  }

  // The ceilings that the program keeps; measuring them again takes a quarter of a minute.
  void try_ceilings() {
    const std::string cache = folder_ / "cache";
    const std::vector<std::string> plan{"plan", "--preset", "tiny", "--threads", "1"};
    ASSERT_EQ(run(plan, {.cache = cache}).code, 0);
    std::string path;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "cache/ridge"))
      if (entry.path().filename().string().starts_with("machine-")) path = entry.path();
    const std::string good = files::contents(path);
    // Another warning is that neighbours were busy.
    auto expect_works = [&](bool is_measured) {
      const Output output = run(plan, {.cache = cache});
      EXPECT_EQ(output.code, 0) << output.err;
      EXPECT_EQ(output.err.find("the ceilings are measured again") != std::string::npos,
                is_measured)
          << output.err;
    };
    for (const std::string& bad :
         {std::string(), good.substr(0, good.size() / 2), "[" + good + "]"}) {
      files::write_plain(path, bad);
      expect_works(true);
      expect_works(false);
    }
    std::filesystem::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    expect_works(true);
  }

 private:
  static bool is_tuning(const std::string& text) {
    try {
      const nlohmann::json json = files::parse_json(text, "tuning");
      return json.is_object() && json.value("identity", nlohmann::json()).is_string() &&
             json.value("choices", nlohmann::json()).is_object();
    } catch (const Error&) {
      return false;
    }
  }
};

TEST_F(DamageCases, Configurations) { try_files(configurations(), kRounds.files); }
TEST_F(DamageCases, Hardware) { try_files(hardware(), kRounds.files); }
TEST_F(DamageCases, RunFolders) { try_files(run_folders(), kRounds.files); }
TEST_F(DamageCases, Indices) { try_files(indices(), kRounds.files); }
TEST_F(DamageCases, Tokenizers) { try_files(tokenizers(), kRounds.files); }
TEST_F(DamageCases, Models) { try_files(models(), kRounds.files); }
TEST_F(DamageCases, Tuning) { try_tuning(kRounds.tuning); }

}  // namespace ridge::apps
