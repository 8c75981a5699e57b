// SPDX-License-Identifier: Apache-2.0
// Looks at the board some times a second. The thread ends the process itself, because the main
// thread may be in a library that never returns.
#include "runtime/rank_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <fstream>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/printable.h"
#include "files/interrupt.h"
#include "files/unfinished.h"

namespace ridge::runtime {
namespace {

using Word = RankBoard::Word;

constexpr double kLookS = 0.05;
// A rank that fails waits so long for the others to fail alike; a rank that is gone may have had
// the time to say why; and a rank that speaks for all has this time to write.
constexpr double kAlikeS = 1, kGoneS = 0.25, kToldS = 3;
// A process that was stopped itself has not waited all that time.
constexpr double kMostPassedS = 0.5;

void sleep_s(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

// Waits until `is_true` or for some seconds.
template <typename IsTrue>
void wait_until(const IsTrue& is_true, double seconds) {
  for (double waited = 0; !is_true() && waited < seconds; waited += kLookS / 5) sleep_s(kLookS / 5);
}

[[noreturn]] void end_process(int code) {
  std::fflush(stdout);
  const auto nothing_is_made = files::remove_unfinished();
  ::_exit(code);
}

// The value of a variable in the environment with which a process began.
std::string variable_of(const std::filesystem::path& process, const std::string& name) {
  std::ifstream in(process / "environ", std::ios::binary);
  for (std::string each; std::getline(in, each, '\0');)
    if (each.starts_with(name + "=")) return each.substr(name.size() + 1);
  return "";
}

// The ranks of this job that run this program on this host, before they know of each other.
std::vector<int> ranks_here(const RankPlace& place) {
  const bool is_mpirun = place.launcher == Launcher::kMpirun;
  const char* job = is_mpirun ? "PMIX_NAMESPACE" : "SLURM_STEP_ID";
  const char* rank = is_mpirun ? "OMPI_COMM_WORLD_RANK" : "SLURM_PROCID";
  const std::string own = variable_of("/proc/self", job);
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  std::vector<int> ranks;
  for (const auto& each : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = each.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;  // "self"
    if (std::filesystem::read_symlink(each.path() / "exe", error) != program || error ||
        variable_of(each.path(), job) != own)
      continue;
    const std::string text = variable_of(each.path(), rank);
    int number = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc())
      ranks.push_back(number);
  }
  std::ranges::sort(ranks);
  return ranks;
}

[[noreturn]] void end_joining(const RankPlace& place,
                              const WatchOptions& options,
                              double waited_s) {
  const std::vector<int> here = ranks_here(place);
  if (!here.empty() && here[0] != place.rank)
    sleep_s(kToldS);
  else
    options.print(fmt::format(
        "[ranks] rank {} of {} waited {:.1f} s for the others to join; this host has rank {}",
        place.rank, place.ranks, waited_s, fmt::join(here, ", ")));
  end_process(static_cast<int>(ExitCode::kRuntime));
}

}  // namespace

void print_error(const std::string& message) {
  std::fputs(("ridge: " + terminal_safe(message, kLongestMessage) + "\n").c_str(), stderr);
}

RankWatch::RankWatch(const RankPlace& place, WatchOptions options)
    : place_(place), options_(std::move(options)) {
  files::hear_signals([this](int signal, bool ends_now) { on_signal(signal, ends_now); });
  thread_ = std::jthread([this](const std::stop_token& stops) { run(stops); });
}

RankWatch::~RankWatch() {
  thread_.request_stop();
  thread_.join();
  files::hear_signals({});
}

void RankWatch::use(std::unique_ptr<RankBoard> board) {
  board_ = std::move(board);
  has_board_ = true;
}

void RankWatch::keep_rings_in(std::filesystem::path folder) {
  const std::scoped_lock lock(mutex_);
  folder_ = std::move(folder);
}

void RankWatch::begin(const plan::Collective& collective, bool is_finite) {
  if (has_board_) own_ = board_->begin(collective, is_finite, false);
}

void RankWatch::end() {
  if (own_ >= 0) board_->end(own_);
  own_ = -1;
}

void RankWatch::launched(std::span<const plan::Collective> collectives) {
  for (const plan::Collective& each : collectives) board_->begin(each, true, true);
}

void RankWatch::watch(const backends::DeviceExchange* device) {
  const std::scoped_lock lock(mutex_);
  device_ = device;
}

void RankWatch::run(const std::stop_token& stops) {
  const double began_ns = now_ns();
  for (double before = began_ns; !stops.stop_requested(); sleep_s(kLookS)) {
    const double now = now_ns();
    const double passed_s = std::min(1e-9 * (now - std::exchange(before, now)), kMostPassedS);
    if (is_ending_) continue;
    if (has_board_) {
      look(passed_s);
      continue;
    }
    // Joining by TCP has its own end.
    const double waited_s = 1e-9 * (now - began_ns);
    if (was_told_to_end_ ||
        (place_.launcher != Launcher::kTorchrun && waited_s > options_.first_step_s))
      end_joining(place_, options_, waited_s);
  }
}

void RankWatch::look_at_device() {
  const std::scoped_lock lock(mutex_);
  if (device_ == nullptr) return;
  board_->end_on_device(device_->finished());
  seen_.fault = device_->fault();
}

void RankWatch::look(double passed_s) {
  look_at_device();
  const int64_t open = board_->first_open();
  seen_.waited_s = open >= 0 && open == seen_.open ? seen_.waited_s + passed_s : 0;
  seen_.open = open;
  seen_.gone_s = find("gone") >= 0 ? seen_.gone_s + passed_s : 0;
  const bool waits = open >= 0 && seen_.waited_s > kGoneS;
  if (!seen_.fault.empty()) end_run(seen_.fault + "; ");
  if (seen_.waited_s > limit_s() || seen_.gone_s > kGoneS) end_run("");
  // One that failed ends the others when it has said why.
  if (waits && find("failed") >= 0 && board_->is_told(Word::kError)) end_run("");
  if (waits && was_told_to_end_ && find("stopped") >= 0) end_run("ended by a signal; ");
}

int RankWatch::find(const char* state) const {
  for (int rank = 0; rank < board_->ranks(); ++rank)
    if (rank != board_->rank() && board_->is_here(rank) && board_->state(rank) == state)
      return rank;
  return -1;
}

bool RankWatch::all_failed_alike(const std::string& error) const {
  for (int rank = 0; rank < board_->ranks(); ++rank)
    if (board_->is_here(rank) && !board_->has_failed_alike(rank, error)) return false;
  return true;
}

void RankWatch::on_signal(int signal, bool ends_now) {
  if (signal != SIGTERM) return;
  was_told_to_end_ = true;
  // The thread ends a rank that has not joined.
  if (ends_now && !has_board_) sleep_s(4 * kLookS);
  if (ends_now && has_board_ && seen_.waited_s > kGoneS) end_run("ended by SIGTERM; ");
}

// The library may not return either; then the end of the process frees the device.
void RankWatch::abort_device() {
  const std::scoped_lock lock(mutex_);
  if (device_ == nullptr) return;
  const auto is_done = std::make_shared<std::atomic<bool>>(false);
  std::thread([is_done, device = device_] {
    device->abort();
    *is_done = true;
  }).detach();
  wait_until([&] { return is_done->load(); }, kAlikeS);
}

void RankWatch::tell(const std::string& message) {
  std::string text = message;
  const std::scoped_lock lock(mutex_);
  if (!folder_.empty()) {
    try {
      std::filesystem::create_directories(folder_);
      for (const record::RankRing& each : board_->rings()) record::write_ring(folder_, each);
      text += fmt::format("; see `ridge explain --hang {}`", folder_.string());
    } catch (const std::exception& error) {
      text += fmt::format("; the rings cannot be written: {}", error.what());
    }
  }
  options_.print(text);
}

void RankWatch::end_run(const std::string& why) {
  // The other thread of this process ends it.
  if (is_ending_.exchange(true))
    for (;;) ::pause();
  if (board_->claim(Word::kHang)) {
    const record::Hang hang = record::find_hang(board_->rings());
    tell(fmt::format("[ranks] {}{}", why, hang.str()));
    board_->set_told(Word::kHang);
  } else {
    wait_until([&] { return board_->is_told(Word::kHang); }, kToldS);
  }
  abort_device();
  end_process(static_cast<int>(ExitCode::kRuntime));
}

void RankWatch::fail(const std::string& error, int code) {
  if (is_ending_.exchange(true))
    for (;;) ::pause();
  if (!has_board_) {
    options_.print(error);
    end_process(code);
  }
  board_->fail(error);
  wait_until([&] { return all_failed_alike(error); }, kAlikeS);
  // The first to print also says where values that are not finite came from.
  const bool is_alike = all_failed_alike(error), is_first = board_->claim(Word::kError);
  if (is_first || !is_alike) {
    const std::string origin = is_first ? record::find_hang(board_->rings()).not_finite : "";
    options_.print((is_alike ? "" : fmt::format("rank {} of {}: ", place_.rank, place_.ranks)) +
                   error + (origin.empty() ? "" : "; " + origin));
    board_->set_told(Word::kError);
  } else {
    wait_until([&] { return board_->is_told(Word::kError); }, kToldS);
  }
  end_process(code);
}

}  // namespace ridge::runtime
