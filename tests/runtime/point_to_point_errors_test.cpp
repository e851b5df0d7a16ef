#include <array>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <rondo/rondo.hpp>

#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

using namespace rondo;
using namespace rondo::testing;
using namespace std::chrono_literals;

namespace {

// Small limits, so that a few kilobytes cross all of them.
Config tight() {
  Config config;
  config.eager_limit = 256;
  config.unexpected_bytes = 16 << 10;
  return config;
}

std::vector<int> numbers(std::size_t count, int seed) {
  std::vector<int> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = seed + static_cast<int>(i);
  return values;
}

}  // namespace

TEST_CASE("a message longer than its buffer is an error of the receiver alone", "[runtime][p2p][errors]") {
  const std::size_t count = GENERATE(20, 5000);
  const auto outcomes = try_ranks(
      2,
      [&](Communicator& world) {
        std::vector<int> data(count);
        int after = 5;
        if (world.rank() == 0) {
          world.send(std::span(data), 1, Tag{3});
          world.send(std::span(&after, 1), 1, Tag{3});
          return;
        }
        try {
          world.recv(std::span(data).first(10), 0, Tag{3});
        } catch (const Error& error) {
          require(error.code() == Errc::truncated && error.peer() == 0, error.what());
          world.recv(std::span(&after, 1), 0, Tag{3});  // the next one is untouched
          throw;
        }
      },
      tight());
  CHECK_FALSE(outcomes[0].failed());
  CHECK(outcomes[1].code == Errc::truncated);
  CHECK(outcomes[1].error.find("wanted at most 40") != std::string::npos);
}

TEST_CASE("sender and receiver that name different types are told so", "[runtime][p2p][errors]") {
  const auto outcomes = try_ranks(2, [](Communicator& world) {
    std::vector<float> sent(4);
    std::vector<int> wanted(4);
    if (world.rank() == 0) world.send(std::span(sent), 1);
    if (world.rank() == 1) world.recv(std::span(wanted), 0);
  });
  CHECK_FALSE(outcomes[0].failed());
  CHECK(outcomes[1].code == Errc::type_mismatch);
  CHECK(outcomes[1].error.find("got elements of type float, wanted int32") != std::string::npos);
}

TEST_CASE("the caller's mistakes are thrown at the call", "[runtime][p2p][errors]") {
  run_ranks(2, [](Communicator& world) {
    int value = 0;
    const auto code_of = [](auto&& call) {
      try {
        call();
      } catch (const Error& error) {
        return error.code();
      }
      return Errc{255};
    };
    const auto cause_of = [](auto&& call) -> std::string {
      try {
        call();
      } catch (const Error& error) {
        return error.cause();
      }
      return "nothing";
    };
    require(code_of([&] { world.send(std::span(&value, 1), 2); }) == Errc::invalid_argument, "rank 2 of 2");
    require(code_of([&] { world.send(std::span(&value, 1), -2); }) == Errc::invalid_argument, "rank -2");
    require(cause_of([&] { world.send(std::span(&value, 1), any_source); }) ==
                "a message needs a rank that it goes to: any_source is for receives",
            "send to any_source");
    require(code_of([&] { world.recv(std::span(&value, 1), 7); }) == Errc::invalid_argument, "source 7");
    require(code_of([&] { world.send(std::span(&value, 1), 1, any_tag); }) == Errc::invalid_argument, "any_tag");
    require(code_of([&] { (void)world.isend(std::span(&value, 1), 2); }) == Errc::invalid_argument, "isend to 2");
    require(code_of([&] { (void)world.irecv(std::span(&value, 1), -7); }) == Errc::invalid_argument, "source -7");
    require(code_of([&] { (void)world.probe(2); }) == Errc::invalid_argument, "probe of 2");
    require(code_of([&] { (void)world.iprobe(2); }) == Errc::invalid_argument, "iprobe of 2");
    const std::span<const char> negative(reinterpret_cast<const char*>(&value), static_cast<std::size_t>(-3));
    require(cause_of([&] { world.send(negative, 1); }).ends_with(": was it negative (-3)?"), "send of -3");
    const std::span many(&value, std::size_t{1} << 62);  // times 4 is 0
    const auto too_many = [&](auto&& call) { return cause_of(call).ends_with("4 bytes, more than memory can hold"); };
    require(too_many([&] { world.send(many, 1); }) && too_many([&] { world.recv(many, 1); }), "2 to the 62nd");
    const std::span<int> nowhere(static_cast<int*>(nullptr), 4);
    const std::string no_address = "the buffer of 16 bytes is at no address (nullptr)";
    require(cause_of([&] { world.send(nowhere, 1); }) == no_address, "send from nowhere");
    require(cause_of([&] { (void)world.isend(nowhere, 1); }) == no_address, "isend from nowhere");
    require(cause_of([&] { world.recv(nowhere, 1); }) == no_address, "recv into nowhere");
    require(cause_of([&] { (void)world.irecv(nowhere, 1); }) == no_address, "irecv into nowhere");
    require(cause_of([&] { world.sendrecv(std::span(&value, 1), 1, nowhere, 1); }) == no_address, "sendrecv");
    std::array<int, 3> both{};
    const auto first = std::span(both).first(2), last = std::span(both).last(2);
    require(code_of([&] { world.sendrecv(first, 1, last, 1); }) == Errc::invalid_argument, "overlap");
    const any_span any_first(first.data(), 2), any_last(last.data(), 2);
    require(code_of([&] { world.sendrecv(any_first, 1, any_last, 1); }) == Errc::invalid_argument, "overlap of any");
    require(code_of([&] { world.sendrecv(first, 1, any_last, 1); }) == Errc::invalid_argument, "overlap with any");
    Communicator inert;
    require(code_of([&] { inert.send(std::span(&value, 1), 0); }) == Errc::not_initialized, "inert");
    require(code_of([&] { (void)inert.rank(); }) == Errc::not_initialized, "inert rank");
    require(code_of([&] { (void)inert.dup(); }) == Errc::not_initialized, "inert dup");
    Communicator mine = world.dup();
    const Communicator moved = std::move(mine);
    // What is left of a communicator that moved on is defined. NOLINTNEXTLINE(bugprone-use-after-move)
    require(moved && code_of([&] { (void)mine.probe(); }) == Errc::not_initialized, "moved from");
  });
}

TEST_CASE("a Work that nobody waited for is waited for, or given up while an exception unwinds",
          "[runtime][p2p][errors]") {
  const std::size_t count = GENERATE(10, 100'000);
  run_ranks(
      2,
      [&](Communicator& world) {
        const auto sent = numbers(count, world.rank());
        std::vector<int> got(count);
        const int other = 1 - world.rank();
        {
          const Work receive = world.irecv(std::span(got), other, Tag{1});
          const Work send = world.isend(std::span(sent), other, Tag{1});
        }
        require(got == numbers(count, other), "the end of a Work did not wait");
        // Nobody sends this and nobody receives that: both are taken back.
        try {
          const Work receive = world.irecv(std::span(got), other, Tag{2});
          const Work send = world.isend(std::span(sent), other, Tag{3});
          throw std::runtime_error("on the way");
        } catch (const std::runtime_error& error) {
          require(std::string_view(error.what()) == "on the way", error.what());
        }
        // Eagerly sent messages had gone before they could be taken back.
        if (count == 10) world.recv(std::span(got), other, Tag{3});
        world.sendrecv(std::span(sent), other, std::span(got), other, Tag{4});
        require(got == numbers(count, other), "wrong data");
      },
      tight());
}

TEST_CASE("a collective that an exception gives up fails on all ranks", "[runtime][errors]") {
  const auto outcomes = try_ranks(3, [](Communicator& world) {
    int value = 1;
    if (world.rank() != 1) return barrier(world);
    try {
      const Work work = iall_reduce(world, std::span(&value, 1), sum);
      throw std::runtime_error("on the way");
    } catch (const std::runtime_error&) {
      barrier(world);
    }
  });
  for (const auto& outcome : outcomes) CHECK(outcome.failed());
}

TEST_CASE("two blocking sends of long messages to each other end at the deadline", "[runtime][p2p][errors]") {
  Config config = tight();
  config.timeout = 200ms;
  std::array<std::string, 2> texts;
  run_ranks(
      2,
      [&](Communicator& world) {
        const int other = 1 - world.rank();
        barrier(world, {.timeout = 60s});  // there is a connection
        std::vector<int> data(100'000);
        try {
          world.send(std::span(data), other);
        } catch (const Error& error) {
          require(error.code() == Errc::timed_out, error.what());
          texts[static_cast<std::size_t>(world.rank())] = error.what();
        }
        // The communicator still works; and nobody leaves before the other's deadline. A receive would have one too.
        int here = 1, there = 0;
        world.send(std::span(&here, 1), other, Tag{1});
        while (!world.iprobe(other, Tag{1})) std::this_thread::yield();
        world.recv(std::span(&there, 1), other, Tag{1});
      },
      config);
  for (const int rank : {0, 1}) {
    const std::string other = std::to_string(1 - rank);
    CHECK(texts[static_cast<std::size_t>(rank)] ==
          "rondo: rank " + std::to_string(rank) + ": send: 400000 bytes to rank " + other +
              " with tag 0: not received within 0.2 s (RONDO_TIMEOUT); if rank " + other +
              " sends first too, use sendrecv or isend [timed_out]");
  }
}

TEST_CASE("a short message that waits because none before it was received says so", "[runtime][p2p][errors]") {
  Config config = tight();
  config.timeout = 1s;
  std::string text;
  run_ranks(
      2,
      [&](Communicator& world) {
        barrier(world, {.timeout = 60s});  // there is a connection
        int word = 0;
        if (world.rank() == 1) {
          while (!world.iprobe(0, Tag{1})) std::this_thread::yield();
          return void(world.recv(std::span(&word, 1), 0, Tag{1}));
        }
        try {
          for (int sent = 0; sent < 1'000; ++sent) world.send(std::span(&word, 1), 1);
        } catch (const Error& error) {
          text = error.what();
        }
        world.send(std::span(&word, 1), 1, Tag{1});
      },
      config);
  CHECK(text ==
        "rondo: rank 0: send: 4 bytes to rank 1 with tag 0: not received within 1 s (RONDO_TIMEOUT); what was sent "
        "before is not received, and takes this rank's share of RONDO_UNEXPECTED_BYTES [timed_out]");
}

TEST_CASE("a blocking send of a long message to oneself ends at the deadline, and says what to do",
          "[runtime][p2p][errors]") {
  Config config = tight();
  config.timeout = 200ms;
  std::string text;
  run_ranks(
      1,
      [&](Communicator& world) {
        std::vector<int> data(100'000);
        try {
          world.send(std::span(data), 0);
        } catch (const Error& error) {
          text = error.what();
        }
      },
      config);
  CHECK(text ==
        "rondo: rank 0: send: 400000 bytes to rank 0 with tag 0: not received within 0.2 s (RONDO_TIMEOUT); to itself "
        "a rank sends by sendrecv or isend [timed_out]");
}

TEST_CASE("a probe says what it looked for, and does not wait for a rank that has left", "[runtime][p2p][errors]") {
  const auto error_of = [](Communicator& world, int source, Tag tag) -> std::string {
    try {
      (void)world.probe(source, tag);
      return "found one";
    } catch (const Error& error) {
      require(error.peer() == source, "names another peer");
      return error.what();
    }
  };
  const auto expect = [](const std::string& text, const std::string& wanted) {
    require(text.find(wanted) != std::string::npos, text);
  };
  std::vector<Config> configs(3);
  configs[0].timeout = 200ms;
  const auto outcomes = try_ranks(configs, [&](Communicator& world) {
    int value = 0;
    barrier(world, {.timeout = 60s});  // there are connections
    if (world.rank() == 1) return;
    if (world.rank() == 2) return static_cast<void>(world.recv(std::span(&value, 1), 0));
    expect(error_of(world, 2, Tag{7}), "no message from rank 2 with tag 7 came within 0.2 s (RONDO_TIMEOUT)");
    expect(error_of(world, any_source, any_tag),
           "no message from any rank with any tag came within 0.2 s (RONDO_TIMEOUT)");
    world.send(std::span(&value, 1), 2);
  });
  for (const Outcome& outcome : outcomes) CHECK(outcome.error == "");
  run_ranks(2, [&](Communicator& world) {
    if (world.rank() == 0) expect(error_of(world, 1, Tag{7}), "no message from rank 1 with tag 7: rank 1 has left");
  });
}

TEST_CASE("wait_all ends all, and throws the first failure", "[runtime][p2p][errors]") {
  run_ranks(
      2,
      [](Communicator& world) {
        std::vector<int> data = numbers(1000, 5), small(10), second(1000), third(1000);
        if (world.rank() == 0) {
          for (const std::uint32_t tag : {1U, 2U, 3U, 4U}) world.send(std::span(data), 1, Tag{tag});
          return;
        }
        std::array<Work, 4> works{world.irecv(std::span(second), 0, Tag{2}), world.irecv(std::span(small), 0, Tag{1}),
                                  world.irecv(std::span(small), 0, Tag{4}), world.irecv(std::span(third), 0, Tag{3})};
        try {
          wait_all(works);
          require(false, "wait_all threw nothing");
        } catch (const Error& error) {
          require(error.code() == Errc::truncated, error.what());
          require(std::string_view(error.what()).find("with tag 1") != std::string_view::npos, error.what());
        }
        for (const Work& work : works) require(!work.valid(), "a work was not waited for");
        require(second == data && third == data, "a message did not arrive");
        wait_all(works);  // nothing is left to wait for
      },
      tight());
}

TEST_CASE("wait_any throws each failure once, and goes on with the others", "[runtime][p2p][errors]") {
  std::vector<Config> configs(2);
  configs[1].timeout = 300ms;
  const auto outcomes = try_ranks(configs, [](Communicator& world) {
    std::vector<int> data = numbers(1000, 5), small(10), whole(1000), never(1);
    int value = 0;
    if (world.rank() == 0) {
      world.send(std::span(data), 1, Tag{1});
      world.send(std::span(data), 1, Tag{2});
      world.recv(std::span(&value, 1), 1, Tag{9});
      return;
    }
    // Both are there before anything has a deadline.
    while (!world.iprobe(0, Tag{2})) std::this_thread::yield();
    std::array<Work, 3> works{world.irecv(std::span(never), 0, Tag{3}), world.irecv(std::span(small), 0, Tag{1}),
                              world.irecv(std::span(whole), 0, Tag{2})};
    std::vector<std::size_t> complete;
    std::vector<Errc> failures;
    for (std::size_t i = 0; i < works.size(); ++i) {
      try {
        complete.push_back(wait_any(works));
      } catch (const Error& error) {
        failures.push_back(error.code());
      }
    }
    require(complete == std::vector<std::size_t>{2}, "not the one that can complete");
    require(failures == std::vector{Errc::truncated, Errc::timed_out}, "not the two failures, in their order");
    require(whole == data, "a message did not arrive");
    require(wait_any(works) == works.size(), "something is left");
    world.send(std::span(&value, 1), 0, Tag{9});
  });
  for (const Outcome& outcome : outcomes) CHECK(outcome.error == "");
}

TEST_CASE("a collective that failed fails every Work that waits for it", "[runtime][errors]") {
  const auto outcomes = try_ranks(2, [](Communicator& world) {
    std::vector<int> data(100), more(100);
    std::vector<Work> works;
    works.push_back(iall_reduce(world, std::span(data), sum));
    if (world.rank() == 1) return works[0].wait();
    works.push_back(iall_reduce(world, std::span(more), sum));  // rank 1 leaves it out, and leaves
    require(wait_any(works) == 0, "not the first");
    wait_any(works);
  });
  CHECK(outcomes[0].code == Errc::peer_failed);
  CHECK_FALSE(outcomes[1].failed());
}

TEST_CASE("ranks need not have one RONDO_EAGER_LIMIT", "[runtime][p2p]") {
  std::vector<Config> configs(3);
  configs[0].eager_limit = 0;
  configs[1].eager_limit = std::size_t{1} << 30;
  const auto outcomes = try_ranks(configs, [](Communicator& world) {
    const int next = (world.rank() + 1) % 3, prev = (world.rank() + 2) % 3;
    for (const std::size_t count : {std::size_t{1}, std::size_t{20'000}, std::size_t{3'000'000}}) {
      const auto sent = numbers(count, world.rank());
      std::vector<int> got(count), total(count, 1);
      world.sendrecv(std::span(sent), next, std::span(got), prev);
      require(got == numbers(count, prev), "not what was sent");
      all_reduce(world, std::span(total), sum);
      require(total == std::vector<int>(count, 3), "not the sum");
    }
  });
  for (const Outcome& outcome : outcomes) CHECK(outcome.error == "");
}

TEST_CASE("ranks that promise each other different memory all hear of both", "[runtime][errors]") {
  std::vector<Config> configs(3);
  configs[2].unexpected_bytes = 4096;
  for (const Outcome& outcome : try_ranks(configs, [](Communicator& world) { barrier(world); })) {
    CHECK(outcome.code == Errc::bad_configuration);
    CHECK_THAT(outcome.error, Catch::Matchers::ContainsSubstring("RONDO_UNEXPECTED_BYTES differs between ranks: rank 0 "
                                                                 "has 67108864, rank 2 has 4096"));
  }
}

TEST_CASE("ranks that are to talk by different transports all hear of both", "[runtime][errors]") {
  std::vector<Config> configs(3);
  configs[1].transport = Transport::tcp;
  for (const Outcome& outcome : try_ranks(configs, [](Communicator& world) { barrier(world); })) {
    CHECK(outcome.code == Errc::bad_configuration);
    CHECK_THAT(outcome.error, Catch::Matchers::ContainsSubstring("RONDO_TRANSPORT differs between ranks: rank 0 "
                                                                 "has auto, rank 1 has tcp"));
  }
}
