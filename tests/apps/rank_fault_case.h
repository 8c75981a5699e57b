// SPDX-License-Identifier: Apache-2.0
// A training of two ranks in which something goes wrong with one of them: the run must end in time,
// say which rank and where, leave nothing over, and go on from its checkpoint.
#pragma once

#include <cstdio>
#include <filesystem>
#include <limits>
#include <regex>

#include "apps/checkpoint_case.h"

namespace ridge::apps {

// Something happens to a rank; a wrapper is a shell script that starts it.
struct RankFault {
  const char* name;
  int signal = 0;                 // sent to rank 1 after some steps
  const char* wrapper = nullptr;  // done by a rank before "$@"
  int wrapped = 1;                // the rank
  bool has_full_disk = false;     // where ranks save, unless they unset LD_PRELOAD
  bool cuts_network = false;      // between the ranks, after some steps
  bool plants_nan = false;        // in the memory of rank 1, after some steps
  int code = 1;
  const char* says = "";  // a regular expression
};

#define RIDGE_IN_COLLECTIVE                                                                       \
  " in collective [0-9]+ of group data: (all_reduce of data_parallel \\(node [0-9]+ of step|any " \
  "|gather )"

inline const RankFault kRankFaults[] = {
    {.name = "SIGKILL", .signal = SIGKILL, .says = "rank 1 \\(process [0-9]+ on [^)]*, gone\\)"},
    {.name = "SIGSTOP",
     .signal = SIGSTOP,
     .says = "rank 1 \\(process [0-9]+ on [^)]*, stopped\\).*" RIDGE_IN_COLLECTIVE
             ".*rank 0 has waited [2-9]"},
    {.name = "Exit",
     .wrapper = "exit 0",
     .says = "rank 0 of 2 waited 2.* to join; this host has rank 0\n"},
    {.name = "SeqLen",
     .wrapper = "for w; do [ \"$w\" = 8 ] && w=16; set -- \"$@\" \"$w\"; shift; done",
     .code = 2,
     .says = "rank 0 has [^;]*ids i32\\[8\\].* rank 1 has .*ids i32\\[16\\]"},
    {.name = "FullDisk",
     .wrapper = "unset LD_PRELOAD",
     .has_full_disk = true,
     .says = "rank 0 of 2: .*No space left on device(.|\n)*rank 0 \\(process [0-9]+ on [^)]*, "
             "failed\\).*" RIDGE_IN_COLLECTIVE},
    {.name = "FullDiskOfTheOther",
     .wrapper = "unset LD_PRELOAD",
     .wrapped = 0,
     .has_full_disk = true,
     .says = "rank 1 of 2: .*No space left on device(.|\n)*rank 1 \\(process [0-9]+ on [^)]*, "
             "failed\\).*" RIDGE_IN_COLLECTIVE},
    {.name = "LearningRate",
     .wrapper = "for w; do [ \"$w\" = 0.001 ] && w=1000; set -- \"$@\" \"$w\"; shift; done",
     .code = 2,
     .says = "expected the same lr on every rank; rank 0 has 0.001, rank 1 has 1000"},
};

// A weight of one rank alone is no number: the sums of gradients bring it to all. The loss of the
// next step shows it, or before that a checkpoint, if the weight changed after the last loss.
inline const RankFault kNan = {
    .name = "Nan",
    .plants_nan = true,
    .says =
        "(finite loss|nothing is saved)(.|\n)*rank 1 was the first with a value that is not finite, "
        "in collective [0-9]+: all_reduce of data_parallel"};

// It needs a network namespace of its own.
inline const RankFault kCutNetwork = {
    .name = "CutNetwork",
    .cuts_network = true,
    .says = "all ranks have arrived" RIDGE_IN_COLLECTIVE ".*rank 0 has waited [2-9]"};

inline const RankFault kStoppedInModel = {
    .name = "StoppedInModel",
    .signal = SIGSTOP,
    .says =
        "rank 1 \\(process [0-9]+ on [^)]*, stopped\\).* in collective [0-9]+ of group tensor: "};

class RankFaultCase : public CheckpointCase {
 protected:
  static bool may_cut_network() {
    return std::system("unshare -n ip link set lo up 2>/dev/null") == 0;
  }

  std::string layout_ = "--data-parallel";

  // "d0": the checkpoint of two ranks after step 4.
  void SetUp() override {
    if (!std::filesystem::exists(kMpirun)) GTEST_SKIP() << "mpirun is missing";
    CheckpointCase::SetUp();
    const Output output = run(ranks("d0", 4), limits());
    ASSERT_EQ(output.code, 0) << output.err;
  }

  void expect_ends(const RankFault& fault, bool by_mpirun) const {
    const std::string what = fmt::format("{} under {}", fault.name, by_mpirun ? "mpirun" : "ridge");
    copy("d0", "c");
    std::filesystem::remove_all(folder_ / "log");
    const Output output = run_with(fault, by_mpirun);
    // mpirun's code says how a signal ended a rank.
    const int code = by_mpirun && fault.signal == SIGKILL ? 128 + SIGKILL : fault.code;
    EXPECT_EQ(output.code, code) << what;
    EXPECT_TRUE(std::regex_search(output.err, std::regex(fault.says))) << what << "\n"
                                                                       << output.err;
    EXPECT_TRUE(ranks_alive().empty()) << what << " left processes behind";
    if (fault.signal != 0) expect_explained(what);
    expect_resumes(what);
  }

  // All of this test's processes whose rank this is; of any rank for -1.
  std::vector<pid_t> ranks_alive(int rank = -1) const {
    std::vector<pid_t> found;
    std::error_code error;
    for (const auto& each : std::filesystem::directory_iterator("/proc", error)) {
      const std::string name = each.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      if (std::filesystem::read_symlink(each.path() / "exe", error) != ridge_program()) continue;
      std::ifstream in(each.path() / "environ", std::ios::binary);
      bool is_ours = false, is_rank = false;
      for (std::string word; std::getline(in, word, '\0');) {
        is_ours |= word == "RIDGE_FAULT_TEST=" + folder_.path().string();
        is_rank |= rank >= 0 ? word == fmt::format("OMPI_COMM_WORLD_RANK={}", rank)
                             : word.starts_with("OMPI_COMM_WORLD_RANK=");
      }
      if (is_ours && is_rank) found.push_back(std::stoi(name));
    }
    return found;
  }

  std::vector<std::string> ranks(const std::string& checkpoints,
                                 int64_t steps,
                                 std::vector<std::string> more = {}) const {
    more.insert(more.end(), {layout_, "2", "--collective-timeout", "2", "--lr", "0.001", "--freeze",
                             "model.norm.weight"});
    return line(checkpoints, steps, more);
  }
  RunLimits limits() const {
    return {.environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                            {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                            {"OMPI_MCA_mpi_yield_when_idle", "1"},
                            {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                            {"OMPI_MCA_btl_vader_single_copy_mechanism", "none"},
                            {"RIDGE_FAULT_TEST", folder_.path().string()}}};
  }
  void copy(const std::string& from, const std::string& to) const {
    std::filesystem::remove_all(folder_ / to);
    std::filesystem::copy(folder_ / from, folder_ / to, std::filesystem::copy_options::recursive);
  }

 private:
  static constexpr const char* kMpirun = "/usr/bin/mpirun";
  static constexpr const char* kMany = "1000000";

  Output run_with(const RankFault& fault, bool by_mpirun) const {
    RunLimits with = limits();
    if (fault.has_full_disk) {
      const RunLimits fails = calls("", 9, "ENOSPC");
      with.environment.insert(with.environment.end(), fails.environment.begin(),
                              fails.environment.end());
    }
    files::write_plain(
        folder_ / "fault.sh",
        fmt::format("if [ $OMPI_COMM_WORLD_RANK = {} ]; then {}; fi\nexec \"$@\"\n", fault.wrapped,
                    fault.wrapper == nullptr ? "true" : fault.wrapper));
    if (by_mpirun)
      with.launcher = {kMpirun, "-n", "2", "/bin/sh", "fault.sh"};
    else
      put_between(with);
    if (fault.cuts_network) put_in_network(with);
    std::vector<std::string> words = ranks("c", 1000000, {"--resume", "--log-dir", "log"});
    const pid_t child = start(words, with);
    const bool comes_later = fault.signal != 0 || fault.cuts_network || fault.plants_nan;
    if (!comes_later) return finish(child);
    while (!std::filesystem::exists(folder_ / "c/step-00000008")) ::usleep(1000);
    if (fault.cuts_network) files::write_plain(folder_ / "cut", "");
    const bool has_victim = !fault.cuts_network;
    const std::vector<pid_t> first = has_victim ? ranks_alive(1) : std::vector<pid_t>();
    EXPECT_EQ(first.size(), has_victim ? 1u : 0u);
    for (const pid_t each : first) {
      if (fault.signal != 0) ::kill(each, fault.signal);
      if (fault.plants_nan) {
        EXPECT_GT(plant_nan(each), 0);
      }
    }
    const auto begin = std::chrono::steady_clock::now();
    const Output output = finish(child);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(1)) << fault.name;
    return output;
  }

  // Writes NaN over the weights of the last norm, which are frozen: 32 ones. Returns in how many
  // places of the process's memory it found them.
  static int plant_nan(pid_t process) {
    const std::vector<float> ones(32, 1), nans(32, std::numeric_limits<float>::quiet_NaN());
    const std::string_view wanted(reinterpret_cast<const char*>(ones.data()),
                                  ones.size() * sizeof(float));
    std::ifstream maps(fmt::format("/proc/{}/maps", process));
    std::fstream memory(fmt::format("/proc/{}/mem", process),
                        std::ios::in | std::ios::out | std::ios::binary);
    int found = 0;
    for (std::string line; std::getline(maps, line);) {
      uint64_t begin = 0, end = 0;
      char access[5] = "";
      if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, access) != 3) continue;
      constexpr uint64_t kMost = uint64_t{256} << 20;
      if (std::string_view(access) != "rw-p" || end - begin > kMost) continue;
      std::string bytes(end - begin, '\0');
      memory.clear();
      memory.seekg(static_cast<std::streamoff>(begin));
      memory.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
      bytes.resize(static_cast<size_t>(memory.gcount()));
      for (size_t at = 0; (at = bytes.find(wanted, at)) != std::string::npos; ++found) {
        memory.clear();
        memory.seekp(static_cast<std::streamoff>(begin + at));
        memory.write(reinterpret_cast<const char*>(nans.data()),
                     static_cast<std::streamsize>(wanted.size()));
        memory.flush();
        at += wanted.size();
      }
    }
    return found;
  }

  // The run has a network of its own, over which ranks exchange until the file "cut" is there.
  void put_in_network(RunLimits& with) const {
    std::filesystem::remove(folder_ / "cut");
    files::write_plain(folder_ / "net.sh",
                       "ip link set lo up\n(while [ ! -e cut ]; do sleep 0.05; done; "
                       "ip link set lo down) &\nexec \"$@\"\n");
    with.launcher.insert(with.launcher.begin(), {"/usr/bin/unshare", "-n", "/bin/sh", "net.sh"});
    with.environment.insert(with.environment.end(),
                            {{"OMPI_MCA_btl", "tcp,self"}, {"OMPI_MCA_btl_tcp_if_include", "lo"}});
  }

  // Ridge starts mpirun by its name: this one puts the wrapper before the program.
  void put_between(RunLimits& with) const {
    std::filesystem::create_directories(folder_ / "bin");
    files::write_plain(folder_ / "bin/mpirun",
                       fmt::format("#!/bin/sh\nfor w; do\n  if [ \"$w\" = {} ]; then set -- \"$@\" "
                                   "/bin/sh fault.sh; fi\n  set -- \"$@\" \"$w\"; shift\ndone\n"
                                   "exec {} \"$@\"\n",
                                   ridge_program(), kMpirun));
    std::filesystem::permissions(folder_ / "bin/mpirun", std::filesystem::perms::owner_all);
    with.environment.emplace_back("PATH", (folder_ / "bin").string() + ":/usr/bin:/bin");
  }

  void expect_explained(const std::string& what) const {
    const Output text = run({"explain", "--hang", "log"}),
                 json = run({"explain", "--hang", "log", "--json"});
    EXPECT_EQ(text.code, 0) << what << text.err;
    EXPECT_NE(text.out.find("rank 1 (process"), std::string::npos) << what << text.out;
    EXPECT_NE(json.out.find("\"collective\""), std::string::npos) << what << json.out;
  }

  // The run goes on as one that was never interrupted, bit by bit.
  void expect_resumes(const std::string& what) const {
    int64_t last = 0;
    for (const auto& each : std::filesystem::directory_iterator(folder_ / "c")) {
      const std::string name = each.path().filename();
      if (name.starts_with("step-")) last = std::max<int64_t>(last, std::stoll(name.substr(5)));
    }
    ASSERT_GE(last, 4) << what;
    const std::string unbroken = fmt::format("r{}", last),
                      step = fmt::format("step-{:08}", last + 2);
    go_on("c", last + 2, what);
    // Most faults end the run before it has saved anything.
    if (!std::filesystem::exists(folder_ / unbroken)) {
      copy("d0", unbroken);
      go_on(unbroken, last + 2, what);
    }
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / unbroken / step)) {
      const std::string name = entry.path().filename();
      EXPECT_TRUE(files::contents(folder_ / "c" / step / name) == files::contents(entry.path()))
          << what << ": " << name;
    }
  }
  void go_on(const std::string& checkpoints, int64_t steps, const std::string& what) const {
    const Output output = run(ranks(checkpoints, steps, {"--resume"}), limits());
    ASSERT_EQ(output.code, 0) << what << "\n" << output.err;
  }
};

}  // namespace ridge::apps
