// SPDX-License-Identifier: Apache-2.0
// Ranks of one process, each in a thread of its own, that reach each other by TCP.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends/collectives/tcp.h"
#include "runtime/rank_launcher.h"

namespace ridge::serve {

// Runs `act` on each rank, with its place in the world. Returns what the ranks threw: empty texts
// of those that threw nothing.
inline std::vector<std::string> run_ranks_in_threads(
    int count,
    const std::function<void(int rank, backends::RankWorld& world)>& act) {
  const int port = runtime::free_port();
  std::vector<std::string> errors(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] {
      try {
        const auto world = backends::join_tcp_world({"127.0.0.1", port, rank, count});
        act(rank, *world);
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  for (std::thread& each : threads) each.join();
  return errors;
}

}  // namespace ridge::serve
