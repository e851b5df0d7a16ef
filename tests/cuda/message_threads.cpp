// Several threads of a rank, each with messages or a communicator of its own.
#include <cstddef>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include <rondo/rondo.hpp>

#include "runtime/device_pieces.hpp"
#include "tests/cuda/acts.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/message_buffers.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/same_bits.hpp"

namespace rondo::testing {
namespace {

/// Each in a thread of its own. Throws what the first of them threw.
void at_once(const std::vector<std::function<void()>>& bodies) {
  std::vector<std::exception_ptr> failures(bodies.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      threads.emplace_back([&body = bodies[i], &failure = failures[i]] {
        try {
          body();
        } catch (...) {
          failure = std::current_exception();
        }
      });
    }
  }
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

/// Both ways between two ranks; the host waits, or the stream.
void exchange_messages(Communicator& world, Tag tag) {
  const DeviceUnderTest device(own_device(world));
  const int other = 1 - world.rank();
  int round = static_cast<int>(tag.value);
  for (const std::size_t bytes : {std::size_t{50}, std::size_t{5000}, 2 * detail::DevicePieces::kBytes + 1}) {
    const Buffer out(world, bytes), in(world, bytes);
    for (const bool stream_waits : {false, true, false, true}) {
      put(device, out, 0, pattern(world.rank(), ++round, bytes));
      Work received = world.irecv(in.span(stream_of(device)), other, tag);
      Work sent = world.isend(out.span(stream_of(device)), other, tag);
      if (stream_waits) {
        sent.wait_on(stream_of(device));
        received.wait_on(stream_of(device));
      } else {
        sent.wait();
        received.wait();
      }
      check(device, in, 0, pattern(other, round, bytes), "a message of one thread of several");
    }
  }
}

void sum_up(Communicator& group) {
  constexpr std::size_t kCount = 1000;
  cuda::buffer<int> one(group, kCount), both(group, 2 * kCount);
  std::vector<int> got(kCount), got_of_both(2 * kCount), wanted_of_both;
  for (int round = 0; round < 10; ++round) {
    one.copy_from(std::vector<int>(kCount, group.rank() + round));
    all_gather(group, one.span(), both.span());
    both.copy_to(got_of_both);
    wanted_of_both.assign(kCount, round);
    wanted_of_both.resize(2 * kCount, round + 1);
    require(got_of_both == wanted_of_both, "what both gave in one thread of several");
    all_reduce(group, one.span(), sum);
    one.copy_to(got);
    require(got == std::vector<int>(kCount, 2 * round + 1), "the sum in one thread of several");
  }
}

void threads_of_a_rank(Communicator& world) {
  Communicator one = world.dup(), another = world.dup();
  at_once({[&] { exchange_messages(world, Tag{0}); }, [&] { exchange_messages(world, Tag{1}); },
           [&] { exchange_messages(world, Tag{2}); }, [&] { sum_up(one); }, [&] { sum_up(another); }});
}

/// Rank 0's device is late at copies from the host and back; messages of another thread go on, and end that.
void beside_a_copy(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  std::vector<std::byte> host = pattern(0, 0, 2 * detail::DevicePieces::kBytes + 1);
  const auto exchange = [&] {
    char out = 0, in = 0;
    const int other = 1 - world.rank();
    for (int i = 0; i < 1000; ++i) world.sendrecv(std::span(&out, 1), other, std::span(&in, 1), other);
  };
  if (world.rank() != 0) {
    exchange();
    return exchange();
  }
  Buffer buffer(world, host.size());
  for (const bool to_device : {true, false}) {
    HeldStream copies = hold_copies(world, device);
    at_once({[&] { to_device ? buffer.copy_from(host) : buffer.copy_to(host); },
             [&] {
               exchange();
               copies.let_go();
             }});
  }
  require(same_bits(host, pattern(0, 0, host.size())), "what was copied to the device and back");
}

}  // namespace

Acts message_threads() { return {{"threads-of-a-rank", threads_of_a_rank}, {"beside-a-copy", beside_a_copy}}; }

}  // namespace rondo::testing
