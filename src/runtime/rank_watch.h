// SPDX-License-Identifier: Apache-2.0
// A thread of each rank that ends the run if a collective does not end in time or a rank is gone,
// and says which rank, which collective and who waits. Errors of several ranks become one message.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "backends/collectives/collective_listener.h"
#include "runtime/rank_board.h"
#include "runtime/rank_place.h"

namespace ridge::runtime {

// Prints an error of ranks on stderr as the command line prints its errors.
void print_error(const std::string& message);

struct WatchOptions {
  double first_step_s = 300, timeout_s = 60;  // until a collective must have ended
  std::function<void(const std::string& message)> print = [](const std::string&) {};
};

class RankWatch final : public backends::CollectiveListener {
 public:
  // Watches the joining of ranks from here on. At most one exists at a time.
  RankWatch(const RankPlace& place, WatchOptions options);
  ~RankWatch() override;  // stops the thread first
  RankWatch(const RankWatch&) = delete;

  // The ranks have joined.
  void use(std::unique_ptr<RankBoard> board);
  RankBoard& board() { return *board_; }
  // Where the rings go if the run fails; empty: nowhere.
  void keep_rings_in(std::filesystem::path folder);
  void set_first_step_done() { is_first_ = false; }

  // This rank ends by an error: one of the ranks that fail alike prints it. Ends the process.
  [[noreturn]] void fail(const std::string& error, int code);

  void begin(const plan::Collective& collective, bool is_finite) override;
  void end() override;
  void launched(std::span<const plan::Collective> collectives) override;
  void watch(const backends::DeviceExchange* device) override;

 private:
  void run(const std::stop_token& stops);
  void look(double passed_s);
  void look_at_device();
  // A rank of this host that is in this state, or -1.
  int find(const char* state) const;
  bool all_failed_alike(const std::string& error) const;
  void on_signal(int signal, bool ends_now);
  // One rank of this host prints and writes for all; the process ends.
  [[noreturn]] void end_run(const std::string& why);
  void abort_device();
  void tell(const std::string& message);
  double limit_s() const { return is_first_ ? options_.first_step_s : options_.timeout_s; }

  RankPlace place_;
  WatchOptions options_;
  std::unique_ptr<RankBoard> board_;
  std::mutex mutex_;  // guards the device and the folder
  const backends::DeviceExchange* device_ = nullptr;
  std::filesystem::path folder_;
  std::atomic<bool> has_board_ = false, is_first_ = true, is_ending_ = false,
                    was_told_to_end_ = false;
  int64_t own_ = -1;  // the entry that is under way on the host
  // The thread waits for this entry, and has looked at it for so long; a rank is gone for so long.
  struct Seen {
    int64_t open = -1;
    double waited_s = 0, gone_s = 0;
    std::string fault = {};
  };
  Seen seen_;
  std::jthread thread_;
};

}  // namespace ridge::runtime
