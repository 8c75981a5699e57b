// SPDX-License-Identifier: Apache-2.0
// Ranks of a training that goes on have the same settings, data, weights and checkpoint, or end.
#include "train/resume.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "backends/collectives/tcp.h"
#include "base/error.h"
#include "files/manifest.h"
#include "files/scratch.h"
#include "runtime/rank_launcher.h"

namespace ridge::train {
namespace {

using nlohmann::ordered_json;

// The messages of two ranks, of which `change` makes the second one's training.
std::vector<std::string> messages(const Resumption& first,
                                  const std::function<void(Resumption&)>& change) {
  std::vector<Resumption> ranks = {first, first};
  change(ranks[1]);
  const int port = runtime::free_port();
  std::vector<std::string> said(2);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      const auto at = static_cast<size_t>(rank);
      try {
        expect_same_training(ranks[at], *backends::join_tcp({"127.0.0.1", port, rank, 2, 60}));
      } catch (const Error& error) {
        said[at] = error.what();
        EXPECT_EQ(error.code(), ExitCode::kUsage);
      }
    });
  threads.clear();
  return said;
}

Resumption training(const std::filesystem::path& checkpoint) {
  Resumption made;
  made.settings = {{"lr", 0.1},
                   {"threads", 2},
                   {"data", {{"seed", 1}, {"sets", {{{"path", "a"}, {"hash", "1"}}}}}},
                   {"model", {{"path", "m"}, {"weights", "2"}}}};
  made.found = FoundCheckpoint{checkpoint, {}};
  made.found->state.step = 4;
  return made;
}

TEST(ExpectSameTraining, RanksThatDifferEndAlike) {
  const files::ScratchFolder folder;
  for (const char* name : {"one", "other"}) {
    std::filesystem::create_directory(folder / name);
    files::write_plain(folder / name / "a", name);
    files::write_manifest(folder / name, "test");
  }
  const Resumption first = training(folder / "one");
  const auto differ = [&](const std::function<void(Resumption&)>& change, const std::string& key) {
    const std::vector<std::string> said = messages(first, change);
    EXPECT_EQ(said[0], said[1]);
    EXPECT_NE(said[0].find("expected the same " + key + " on every rank; rank 0 has"),
              std::string::npos)
        << said[0];
  };
  differ([](Resumption& r) { r.settings["lr"] = 0.2; }, "lr");
  differ([](Resumption& r) { r.settings["data"]["sets"][0]["hash"] = "3"; }, "data");
  differ([](Resumption& r) { r.settings["model"]["weights"] = "3"; }, "model");
  differ([](Resumption& r) { r.settings["model"] = nullptr; }, "model");
  differ([](Resumption& r) { r.found.reset(); }, "checkpoint");
  differ([](Resumption& r) { r.found->state.step = 2; }, "checkpoint");
  differ([&](Resumption& r) { r.found->path = folder / "other"; }, "checkpoint");
}

// Hosts have other processors, and keep files elsewhere.
TEST(ExpectSameTraining, MachinesMayDiffer) {
  const files::ScratchFolder folder;
  for (const char* name : {"one", "other"}) {
    std::filesystem::create_directory(folder / name);
    files::write_plain(folder / name / "a", "a");
    files::write_manifest(folder / name, "test");
  }
  const std::vector<std::string> said = messages(training(folder / "one"), [&](Resumption& r) {
    r.settings["threads"] = 8;
    r.settings["data"]["sets"][0]["path"] = "/b";
    r.settings["model"]["path"] = "/m";
    r.found->path = folder / "other";
  });
  EXPECT_EQ(said, (std::vector<std::string>{"", ""}));
}

}  // namespace
}  // namespace ridge::train
