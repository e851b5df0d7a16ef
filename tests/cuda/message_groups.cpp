// Messages of devices' memory in communicators that are not the world.
#include <csignal>
#include <cstddef>
#include <span>
#include <string>

#include <rondo/rondo.hpp>

#include "runtime/access.hpp"
#include "runtime/engine.hpp"
#include "tests/cuda/acts.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/message_buffers.hpp"
#include "tests/support/ranks.hpp"

namespace rondo::testing {
namespace {

/// In a group of three of four ranks, in another order: the error has the ranks of the group.
void fails_in_a_group(Communicator& world) {
  Communicator group = world.subgroup({3, 1, 0});
  if (!group) return barrier(world);
  Buffer buffer(group, 5000);
  if (group.rank() == 0) group.send(buffer.span(), 1);
  if (group.rank() == 1) {
    const Error error =
        refused(Errc::cuda, "was encountered, rank 0, 5000 bytes", [&] { group.recv(buffer.span(), 0); });
    require(error.rank() == 1 && error.peer() == 0, "the ranks of an error");
  }
  barrier(world);
}

/// The first of it dies while the second waits for what it has sent.
void dies_in_a_group(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  Communicator group = world.subgroup({3, 1, 0});
  const Buffer buffer(world, 5000);
  barrier(world);
  if (world.rank() == 3) {
    HeldStream held(device);
    Work sent = group.isend(buffer.span(stream_of(device)), 1);
    char word = 0;
    group.send(std::span(&word, 1), 1, Tag{1});
    group.recv(std::span(&word, 1), 1, Tag{1});
    ::raise(SIGKILL);
  }
  if (world.rank() != 1) return;
  Work received = group.irecv(buffer.span(), 0);
  char word = 0;
  group.recv(std::span(&word, 1), 0, Tag{1});
  group.send(std::span(&word, 1), 0, Tag{1});
  const Error error = refused(Errc::peer_failed, "recv: from rank 0 with tag 0: rank 0 died", [&] { received.wait(); });
  require(error.rank() == 1 && error.peer() == 0, "the ranks of an error");
}

/// Rank 1 has destroyed the communicator in which rank 0 sends, before that was offered or after; nothing stays held
/// for it.
void communicator_is_gone(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const Buffer buffer(world, 5000);
  Communicator group = world.dup();
  char word = 0;
  if (world.rank() == 1) {
    // The offer has come, too.
    world.recv(std::span(&word, 1), 0);
    group = Communicator();
    world.recv(std::span(&word, 1), 0);
    return;
  }
  const auto refused_with = [](const char* tag, const auto& call) {
    refused(Errc::peer_failed,
            "send: 5000 bytes to rank 1 with tag " + std::string(tag) + ": rank 1 has destroyed the communicator",
            call);
  };
  Work offered = group.isend(buffer.span(), 1, Tag{1});
  world.send(std::span(&word, 1), 1);
  refused_with("1", [&] { offered.wait(); });
  refused_with("2", [&] { group.send(buffer.span(), 1, Tag{2}); });
  {
    detail::Engine& engine = *CommunicatorAccess::engine(world);
    const detail::Progress::Entry entry(engine.progress());
    require(engine.device().opened()->events.available() == detail::RankDevice::kEvents, "all events");
  }
  world.send(std::span(&word, 1), 1);
}

/// What has ended can be waited for without the communicator that it was of.
void communicator_is_gone_before_the_wait(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  char word = 0;
  Communicator group = world.dup();
  Work over = world.rank() == 0 ? group.isend(std::span(&word, 1), 1) : group.irecv(std::span(&word, 1), 0);
  Work met = ibarrier(group);
  while (!over.test() || !met.test()) continue;
  group = Communicator();
  over.wait_on(stream_of(device));
  met.wait_on(stream_of(device));
}

}  // namespace

Acts message_groups() {
  return {
      {"fails-in-a-group", fails_in_a_group},
      {"dies-in-a-group", dies_in_a_group},
      {"communicator-is-gone", communicator_is_gone},
      {"communicator-is-gone-before-the-wait", communicator_is_gone_before_the_wait},
  };
}

}  // namespace rondo::testing
