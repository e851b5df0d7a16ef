// Messages whose streams wait, instead of the host, or are behind.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include <rondo/rondo.hpp>

#include "cuda/copies.hpp"
#include "tests/cuda/acts.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/message_buffers.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/same_bits.hpp"

namespace rondo::testing {
namespace {

/// A stream that is behind, at the sender or at the receiver, keeps no message of another stream back.
void streams_apart(Communicator& world) {
  const DeviceUnderTest device(own_device(world)), behind(own_device(world));
  constexpr std::size_t kBytes = 5000;
  const Buffer late(world, kBytes), soon(world, kBytes);
  device.fill(address_of(late), kBytes, std::byte{1});
  // What others map is mapped while no stream is held, for which a driver might wait.
  for (const Buffer* const buffer : {&late, &soon}) {
    if (world.rank() == 0) world.send(buffer->span(stream_of(device)), 1);
    if (world.rank() == 1) world.recv(buffer->span(stream_of(device)), 0);
  }
  for (const int holder : {0, 1}) {
    std::optional<HeldStream> held;
    if (world.rank() == holder) held.emplace(behind);
    Work waits;
    if (world.rank() == 0) {
      put(device, soon, 0, pattern(holder, 1, kBytes));
      waits = world.isend(late.span(stream_of(behind)), 1, Tag{1});
      world.send(soon.span(stream_of(device)), 1);
    } else {
      waits = world.irecv(late.span(stream_of(behind)), 0, Tag{1});
      // The first has come as far as it can.
      (void)world.probe(0);
      for (int i = 0; i < 1000; ++i) require(!waits.test(), "it overtook its stream");
      world.recv(soon.span(stream_of(device)), 0);
      check(device, soon, 0, pattern(holder, 1, kBytes), "what another stream had");
    }
    barrier(world);
    held.reset();
    waits.wait();
  }
}

/// The stream waits instead of the host, which knows what has come; the buffer is forgotten meanwhile.
void stream_waits(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kBytes = 100'000;
  for (int round = 0; round < 10; ++round) {
    const Buffer buffer(world, kBytes + 1);
    const Tag tag{static_cast<std::uint32_t>(round)};
    if (world.rank() == 0) {
      put(device, buffer, 0, pattern(0, round, kBytes));
      world.send(buffer.span(stream_of(device)).subspan(0, kBytes), 1, tag);
    } else {
      std::vector<std::byte> after(kBytes);
      Work work = world.irecv(buffer.span(stream_of(device)), any_source, any_tag);
      work.wait_on(stream_of(device));
      const Status status = work.status();
      require(status.source == 0 && status.tag == tag && status.bytes == kBytes, "what is known of the message");
      device.read(address_of(buffer), after);
      device.stream.synchronize();
      require(same_bits(after, pattern(0, round, kBytes)), "what came after on the stream");
    }
  }
}

/// The stream of one rank waits for the other's copy, not the host: what is queued on it next comes after that. Perhaps
/// another stream did so before. Whoever makes the copy is held until both have seen that.
void stream_waits_for_other(Communicator& world, int waiting, bool is_second = false) {
  const DeviceUnderTest device(own_device(world)), first(own_device(world));
  constexpr std::size_t kBytes = 100'000;
  const auto sent = pattern(0, 1, kBytes);
  const Buffer buffer(world, kBytes), after(world, kBytes);
  const auto start = [&] {
    return world.rank() == 0 ? world.isend(buffer.span(stream_of(device)), 1)
                             : world.irecv(buffer.span(stream_of(device)), 0);
  };
  if (world.rank() == 0) put(device, buffer, 0, sent);
  // What others map is mapped while no stream is held, for which a driver might wait.
  start().wait();
  device.fill(address_of(after), kBytes, std::byte{0});
  if (world.rank() == 1) device.fill(address_of(buffer), kBytes, std::byte{0});
  const int other = 1 - world.rank();
  char word = 0;
  HeldStream copies = hold_copies(world, device);
  Work work = start();
  if (world.rank() == waiting) {
    if (is_second) work.wait_on(stream_of(first));
    work.wait_on(stream_of(device));
    waiting == 0 ? overwrite(device, buffer) : device.copy(address_of(after), address_of(buffer), kBytes);
    world.send(std::span(&word, 1), other, Tag{1});
    world.recv(std::span(&word, 1), other, Tag{1});
    copies.let_go();
    device.stream.synchronize();
    work.wait_on(stream_of(first));  // whatever has become of it
  } else {
    world.recv(std::span(&word, 1), other, Tag{1});
    require(!work.test(), "its copy is over already");
    world.send(std::span(&word, 1), other, Tag{1});
    copies.let_go();
    work.wait();
  }
  if (world.rank() == 1)
    check(device, waiting == 1 ? after : buffer, 0, sent, "what was sent before the stream went on");
  barrier(world);
}

/// Both streams have yet to come to a message when they are to wait for it, or one of them: the hosts go on, and so do
/// messages of other streams.
void streams_wait_for_streams(Communicator& world, bool sender_waits, bool receiver_waits) {
  const DeviceUnderTest device(own_device(world)), other(own_device(world));
  constexpr std::size_t kBytes = 100'000;
  const bool sends = world.rank() == 0;
  const auto before = pattern(1, 1, kBytes), sent = pattern(0, 1, kBytes), soon = pattern(0, 2, kBytes);
  const Buffer made(world, kBytes), late(world, kBytes), got(world, kBytes), overtakes(world, kBytes);
  const auto copy = [&](const Buffer& to, const Buffer& from) {
    device.copy(address_of(to), address_of(from), kBytes);
  };
  put(device, made, 0, sent);
  put(device, late, 0, before);
  put(device, overtakes, 0, soon);
  {
    HeldStream held(device);
    if (sends) copy(late, made);
    Work work = sends ? world.isend(late.span(stream_of(device)), 1) : world.irecv(late.span(stream_of(device)), 0);
    if (sends ? sender_waits : receiver_waits) {
      work.wait_on(stream_of(device));
      if (sends) overwrite(device, late);
    }
    const auto span = overtakes.span(stream_of(other));
    Work overtaking = sends ? world.isend(span, 1, Tag{1}) : world.irecv(span, 0, Tag{1});
    overtaking.wait_on(stream_of(other));
    other.stream.synchronize();
    if (!sends) check(other, overtakes, 0, soon, "what another stream waited for");
    barrier(world);
    if (sends) held.let_go();
    barrier(world);
    for (int i = 0; i < 100 && !sends; ++i) check(other, late, 0, before, "what the stream still reads");
    held.let_go();
    work.wait();
    if (!sends) copy(got, late);
  }
  if (!sends) check(device, got, 0, sent, "what the stream waited for");
  barrier(world);
}

/// More are to be waited for than the device waits for at a time: those the host waits for until they are due. None has
/// anything left for the next.
void most_streams_wait(Communicator& world, int round) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kBytes = 100, kMost = cuda::Copies::kMostLanes, kMessages = kMost + 8;
  const int sender = round % 2, receiver = 1 - sender;
  const auto sent = pattern(sender, round, kBytes * kMessages);
  const Buffer made(world, sent.size()), buffer(world, sent.size());
  const bool sends = world.rank() == sender;
  put(device, made, 0, sent);
  HeldStream held(device);
  if (sends) device.copy(address_of(buffer), address_of(made), sent.size());
  std::vector<Work> works;
  for (std::size_t i = 0; i < kMessages; ++i) {
    const auto span = buffer.span(stream_of(device)).subspan(i * kBytes, kBytes);
    works.push_back(sends ? world.isend(span, receiver) : world.irecv(span, sender));
  }
  char word = 0;
  for (std::size_t i = 0; i < kMessages && !sends; ++i) {
    if (i == kMost) {
      world.send(std::span(&word, 1), sender, Tag{1});
      held.let_go();
    }
    works[i].wait_on(stream_of(device));
  }
  if (sends) {
    world.recv(std::span(&word, 1), receiver, Tag{1});
    held.let_go();
    wait_all(works);
  } else {
    check(device, buffer, 0, sent, "what the stream waited for");
  }
}

/// The driver refuses rank 0 the wait: the message goes on, and so does everything else.
void wait_is_refused(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kBytes = 5000;
  const Buffer buffer(world, kBytes);
  const auto stream = stream_of(device);
  if (world.rank() == 0) {
    put(device, buffer, 0, pattern(0, 1, kBytes));
    Work sent = world.isend(buffer.span(stream), 1);
    const Error error = driver_refuses("cuStreamWaitEvent", 2, [&] { sent.wait_on(stream); });
    require(error.rank() == 0, "the rank of an error");
    require(std::string(error.what()).find(", rank") == std::string::npos, "the text of an error");
    sent.wait();
  } else {
    world.recv(buffer.span(stream), 0);
    check(device, buffer, 0, pattern(0, 1, kBytes), "whose sender's wait was refused");
  }
  barrier(world);
}

/// While a stream is being captured, by this thread or another, what has to do with other streams goes on, and spoils
/// nothing.
void beside_a_capture(Communicator& world) {
  const DeviceUnderTest device(own_device(world)), user(own_device(world));
  constexpr std::size_t kBytes = 100'000;
  const Buffer out(world, kBytes), in(world, kBytes);
  const int other = 1 - world.rank();
  const auto exchange = [&] {
    const Buffer sum(world, kBytes);
    world.sendrecv(out.span(stream_of(device)), other, in.span(stream_of(device)), other);
    all_reduce(world, in.span(stream_of(device)), sum.span(stream_of(device)), bor);
  };
  put(device, out, 0, pattern(world.rank(), 0, kBytes));
  for (const auto mode : {cuda::CaptureMode::global, cuda::CaptureMode::own}) {
    const Capture captured(user, user.stream.handle(), mode);
    exchange();
    captured.end();
  }
  std::promise<void> begun, exchanged;
  auto captured = std::async(std::launch::async, [&] {
    const Capture elsewhere(user, user.stream.handle(), cuda::CaptureMode::global);
    begun.set_value();
    exchanged.get_future().wait();
    elsewhere.end();
  });
  begun.get_future().wait();
  exchange();
  exchanged.set_value();
  captured.get();
  check(device, in, 0, pattern(other, 0, kBytes), "what came beside a capture");
}

/// What a stream waits for goes by the host, and its receiver comes long after the sender has left.
void left_for_later(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kBytes = 50;
  const auto sent = pattern(0, 1, kBytes);
  const Buffer buffer(world, kBytes);
  if (world.rank() == 0) {
    put(device, buffer, 0, sent);
    world.isend(buffer.span(stream_of(device)), 1).wait_on(stream_of(device));
    device.stream.synchronize();
    world = Communicator();
    return;
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
  while (std::chrono::steady_clock::now() < until) continue;
  world.recv(buffer.span(), 0);
  check(device, buffer, 0, sent, "what was sent before its sender left");
}

/// The same of many messages, in both directions, whose copies may be over before anybody asks.
void streams_wait_for_each_other(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kBytes = 3000;
  const int other = 1 - world.rank();
  for (int round = 0; round < 100; ++round) {
    const Buffer out(world, kBytes), in(world, kBytes);
    put(device, out, 0, pattern(world.rank(), round, kBytes));
    Work sent = world.isend(out.span(stream_of(device)), other);
    Work received = world.irecv(in.span(stream_of(device)), other);
    sent.wait_on(stream_of(device));
    received.wait_on(stream_of(device));
    check(device, in, 0, pattern(other, round, kBytes), "one of many");
    if (round % 3 == 0) barrier(world);
  }
}

/// Of streams that nobody makes: the default one by its names, and that of the thread.
void default_streams(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kBytes = 100'000;
  const Buffer buffer(world, kBytes);
  for (const std::uintptr_t name : {0, 1, 2}) {
    const auto stream = reinterpret_cast<cuda::StreamHandle>(name);
    const auto value = static_cast<std::byte>(name + 1);
    std::optional<HeldStream> held;
    Work work;
    if (world.rank() == 0) {
      held.emplace(device, stream);
      const cuda::Current current(device.context);
      device.driver().must(device.driver().cuMemsetD8Async, address_of(buffer), static_cast<unsigned char>(value),
                           kBytes, stream);
      work = world.isend(buffer.span(stream), 1);
    } else {
      work = world.irecv(buffer.span(stream), 0);
    }
    barrier(world);
    require(!work.test(), "it overtook its stream");
    barrier(world);
    held.reset();
    work.wait();
    require(device.holds(address_of(buffer), kBytes, value), "what a default stream had");
  }
}

}  // namespace

Acts message_streams() {
  return {
      {"default-streams", default_streams},
      {"streams-apart", streams_apart},
      {"stream-waits", stream_waits},
      {"sender-stream-waits", [](Communicator& world) { stream_waits_for_other(world, 0); }},
      {"receiver-stream-waits", [](Communicator& world) { stream_waits_for_other(world, 1); }},
      {"sender-second-stream-waits", [](Communicator& world) { stream_waits_for_other(world, 0, true); }},
      {"receiver-second-stream-waits", [](Communicator& world) { stream_waits_for_other(world, 1, true); }},
      {"sender-stream-waits-for-streams", [](Communicator& world) { streams_wait_for_streams(world, true, false); }},
      {"receiver-stream-waits-for-streams", [](Communicator& world) { streams_wait_for_streams(world, false, true); }},
      {"both-streams-wait-for-streams", [](Communicator& world) { streams_wait_for_streams(world, true, true); }},
      {"most-streams-wait",
       [](Communicator& world) {
         for (int round = 0; round < 2; ++round) most_streams_wait(world, round);
       }},
      {"wait-is-refused", wait_is_refused},
      {"wait-is-refused-in-a-group",
       [](Communicator& world) {
         Communicator group = world.subgroup({2, 0});
         if (group) wait_is_refused(group);
       }},
      {"beside-a-capture", beside_a_capture},
      {"left-for-later", left_for_later},
      {"streams-wait-for-each-other", streams_wait_for_each_other},
  };
}

}  // namespace rondo::testing
