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

namespace ridge::backends {

// Runs `act` on each rank, with a port at which they can meet. Returns what the ranks threw: empty
// texts of those that threw nothing.
inline std::vector<std::string> run_in_threads(int count,
                                               const std::function<void(int rank, int port)>& act) {
  const int port = runtime::free_port();
  std::vector<std::string> errors(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] {
      try {
        act(rank, port);
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  for (std::thread& each : threads) each.join();
  return errors;
}

// The same with the rank's place in the world.
inline std::vector<std::string> run_ranks_in_threads(
    int count,
    const std::function<void(int rank, RankWorld& world)>& act) {
  return run_in_threads(count, [&](int rank, int port) {
    act(rank, *join_tcp_world({"127.0.0.1", port, rank, count}));
  });
}

}  // namespace ridge::backends
