// SPDX-License-Identifier: Apache-2.0
// Tests of ranks that reach each other by TCP: each rank is a thread here.
#include "backends/collectives/tcp.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <mutex>
#include <thread>

#include "backends/ranks_in_threads.h"
#include "base/bf16.h"
#include "base/error.h"
#include "runtime/rank_launcher.h"

namespace ridge::backends {
namespace {

using runtime::free_port;

// Runs `body` on each rank and returns the messages of the Errors that they ended with.
std::vector<std::string> run_ranks(int ranks,
                                   const std::function<void(Communicator&)>& body,
                                   double timeout_s = 20) {
  return run_in_threads(ranks, [&](int rank, int port) {
    body(*join_tcp({"127.0.0.1", port, rank, ranks, timeout_s}));
  });
}

void expect_none(const std::vector<std::string>& errors) {
  for (const std::string& each : errors) EXPECT_EQ(each, "");
}

TEST(TcpCommunicator, GathersTheTextsOfAllRanksInOrder) {
  expect_none(run_ranks(4, [](Communicator& ranks) {
    EXPECT_EQ(ranks.size(), 4);
    const std::string own(static_cast<size_t>(ranks.rank() * 1000), 'x');
    for (int round = 0; round < 3; ++round) {
      const std::vector<std::string> all = ranks.gather(own);
      ASSERT_EQ(all.size(), 4u);
      for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], std::string(i * 1000, 'x'));
    }
  }));
}

TEST(TcpCommunicator, KnowsWhetherItIsTrueOnAnyRank) {
  expect_none(run_ranks(3, [](Communicator& ranks) {
    EXPECT_FALSE(ranks.any(false));
    EXPECT_TRUE(ranks.any(ranks.rank() == 2));
    EXPECT_TRUE(ranks.any(ranks.rank() == 0));
    EXPECT_FALSE(ranks.any(false));
  }));
}

TEST(TcpCommunicator, AddsUpAndAveragesEachType) {
  expect_none(run_ranks(3, [](Communicator& ranks) {
    const float own = static_cast<float>(ranks.rank() + 1);
    std::vector<float> wide = {own, -own, 0.5F};
    std::vector<uint16_t> bf16 = {float_to_bf16(own), float_to_bf16(8 * own)},
                          f16 = {float_to_f16(own * 0.25F)};
    const auto bytes = [](auto& values) { return reinterpret_cast<std::byte*>(values.data()); };
    const std::vector<Exchanged> tensors = {{bytes(wide), 3, DType::kF32},
                                            {bytes(bf16), 2, DType::kBF16},
                                            {bytes(f16), 1, DType::kF16}};
    ranks.all_reduce(tensors, false, "sums");
    EXPECT_EQ(wide, (std::vector<float>{6, -6, 1.5F}));
    EXPECT_EQ(bf16_to_float(bf16[1]), 48);
    EXPECT_EQ(f16_to_float(f16[0]), 1.5F);
    ranks.all_reduce(tensors, true, "averages");
    EXPECT_EQ(wide, (std::vector<float>{6, -6, 1.5F}));
  }));
}

TEST(TcpCommunicator, GathersPartsAndScattersSums) {
  expect_none(run_ranks(3, [](Communicator& ranks) {
    const float own = static_cast<float>(ranks.rank() + 1);
    std::vector<float> part = {own, -own}, whole(6), sum(2);
    std::vector<uint16_t> narrow = {float_to_bf16(own)}, narrow_whole(3);
    const auto bytes = [](auto& values) { return reinterpret_cast<std::byte*>(values.data()); };
    ranks.all_gather(std::vector<Divided>{{bytes(part), bytes(whole), 2, DType::kF32},
                                          {bytes(narrow), bytes(narrow_whole), 1, DType::kBF16}},
                     "parts");
    EXPECT_EQ(whole, (std::vector<float>{1, -1, 2, -2, 3, -3}));
    for (size_t i = 0; i < 3; ++i)
      EXPECT_EQ(bf16_to_float(narrow_whole[i]), static_cast<float>(i + 1));
    for (float& each : whole) each *= own;  // each part of the sum is 6 times the part
    const std::vector<Divided> tensors = {{bytes(sum), bytes(whole), 2, DType::kF32}};
    ranks.reduce_scatter(tensors, false, "sums");
    EXPECT_EQ(sum, (std::vector<float>{6 * own, -6 * own}));
    ranks.reduce_scatter(tensors, true, "averages");
    EXPECT_EQ(sum, (std::vector<float>{2 * own, -2 * own}));
  }));
}

TEST(TcpCommunicator, SendsToTheOtherOfTwo) {
  expect_none(run_ranks(2, [](Communicator& ranks) {
    std::vector<float> sent = {1.5F, -2, 3}, got(3);
    const auto tensor = [](std::vector<float>& values) {
      return Exchanged{reinterpret_cast<std::byte*>(values.data()), 3, DType::kF32};
    };
    if (ranks.rank() == 0) ranks.send(tensor(sent), "send");
    if (ranks.rank() == 1) ranks.receive(tensor(got), "receive");
    if (ranks.rank() == 1) ranks.send(tensor(got), "send back");
    if (ranks.rank() == 0) ranks.receive(tensor(got), "receive back");
    EXPECT_EQ(got, sent);
  }));
}

TEST(TcpCommunicator, EndsWithoutARankThatDoesNotCome) {
  const std::vector<std::string> errors = run_ranks(
      2,
      [](Communicator& ranks) {
        if (ranks.rank() == 1) return;
        ranks.all_reduce({}, false, "all_reduce of data_parallel");
      },
      0.5);
  EXPECT_NE(errors[0].find("rank 0 of 2: all_reduce of data_parallel"), std::string::npos)
      << errors[0];
}

// Pairs and one that is alone, at the same time; then all of them, in another order of numbers.
TEST(TcpWorld, DividesItselfIntoGroups) {
  expect_none(run_in_threads(5, [](int rank, int port) {
    const auto world = join_tcp_world({"127.0.0.1", port, rank, 5, 20});
    EXPECT_EQ(world->size(), 5);
    const auto pair = world->split(10 - rank / 2), all = world->split(0);
    EXPECT_EQ(pair->size(), rank == 4 ? 1 : 2);
    EXPECT_EQ(pair->rank(), rank % 2);
    EXPECT_EQ(all->rank(), rank);
    EXPECT_EQ(all->gather(std::to_string(rank)),
              (std::vector<std::string>{"0", "1", "2", "3", "4"}));
    const std::string own(static_cast<size_t>(rank), 'x');
    const std::vector<std::string> texts = pair->gather(own);
    EXPECT_EQ(texts[static_cast<size_t>(rank % 2)], own);
    EXPECT_EQ(texts.back(), std::string(static_cast<size_t>(rank == 4 ? 4 : rank | 1), 'x'));
  }));
}

TEST(TcpCommunicator, EndsIfNobodyListens) {
  try {
    join_tcp({"127.0.0.1", free_port(), 1, 2, 0.1});
    ADD_FAILURE() << "it joined nobody";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("reaching rank 0"), std::string::npos) << error.what();
  }
}

TEST(TcpCommunicator, RefusesTwoProcessesOfOneRank) {
  const int port = free_port();
  std::thread twin([&] {
    for (int i = 0; i < 2; ++i) {
      try {
        join_tcp({"127.0.0.1", port, 1, 3, 5});
      } catch (const Error&) {
      }
    }
  });
  try {
    join_tcp({"127.0.0.1", port, 0, 3, 5});
    ADD_FAILURE() << "two processes are rank 1";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("a process came as rank 1 of 3"), std::string::npos)
        << error.what();
  }
  twin.join();
}

// A connection to the port of rank 0 that sends these bytes, once the port is open.
int strange_connection(int port, std::string_view bytes) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  for (;;) {
    const int handle = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(handle, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
      EXPECT_EQ(::send(handle, bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes));
      return handle;
    }
    ::close(handle);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// Port scanners: one that ends at once, one that speaks HTTP, and more than are kept that are
// silent or stop within the greeting.
TEST(TcpCommunicator, StrangersDoNotKeepTheRanksFromJoining) {
  const int port = free_port();
  std::thread first([&] {
    const auto ranks = join_tcp({"127.0.0.1", port, 0, 2, 60});
    EXPECT_EQ(ranks->gather("a"), (std::vector<std::string>{"a", "b"}));
  });
  ::close(strange_connection(port, ""));
  std::vector<int> strangers = {strange_connection(port, "GET / HTTP/1.1\r\n\r\n")};
  for (int i = 0; i < 100; ++i)
    strangers.push_back(strange_connection(port, i % 2 == 0 ? "" : "GDIR"));
  EXPECT_EQ(join_tcp({"127.0.0.1", port, 1, 2, 60})->gather("b"),
            (std::vector<std::string>{"a", "b"}));
  first.join();
  for (const int each : strangers) ::close(each);
}

}  // namespace
}  // namespace ridge::backends
