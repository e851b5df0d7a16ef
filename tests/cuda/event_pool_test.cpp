#include "cuda/event_pool.hpp"

#include <string>

#include "cuda/region.hpp"
#include "tests/cuda/child.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/wire_text.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::cuda;
using namespace rondo::testing;

TEST_CASE("a pool gives each event to one use at a time, and says when it has none", "[cuda][event_pool]") {
  const DeviceUnderTest device;
  EventPool pool(device.context, 2);
  CHECK(pool.handles().size() == 2);
  const auto first = pool.record(device.stream.handle());
  const auto second = pool.record(device.stream.handle());
  REQUIRE(first);
  REQUIRE(second);
  CHECK(first->index != second->index);
  CHECK(pool.available() == 0);
  CHECK(!pool.record(device.stream.handle()));
  CHECK(pool.give_back(*first));
  const auto third = pool.record(device.stream.handle());
  REQUIRE(third);
  CHECK(third->index == first->index);
  CHECK(third->generation == first->generation + 1);
}

TEST_CASE("a pool takes back what is in use only, and only once", "[cuda][event_pool]") {
  const DeviceUnderTest device;
  EventPool pool(device.context, 2);
  const auto ticket = pool.record(device.stream.handle());
  REQUIRE(ticket);
  CHECK(!pool.give_back({.index = 2, .generation = 1}));
  CHECK(!pool.give_back({.index = ticket->index, .generation = ticket->generation + 1}));
  CHECK(!pool.give_back({.index = 1 - ticket->index, .generation = 0}));
  CHECK(pool.give_back(*ticket));
  CHECK(!pool.give_back(*ticket));
  CHECK(pool.available() == 2);
}

TEST_CASE("an event that several wait for is free again when all have said so, and used again last",
          "[cuda][event_pool]") {
  const DeviceUnderTest device;
  EventPool pool(device.context, 3);
  const auto ticket = pool.record(device.stream.handle(), 2);
  REQUIRE(ticket);
  CHECK(pool.give_back(*ticket));
  CHECK(pool.available() == 2);
  CHECK(pool.give_back(*ticket));
  CHECK(pool.available() == 3);
  CHECK(!pool.give_back(*ticket));
  for (int other = 0; other < 2; ++other) CHECK(pool.record(device.stream.handle())->index != ticket->index);
  CHECK(pool.record(device.stream.handle())->index == ticket->index);
}

TEST_CASE("an owner that fails gives up its events, and late answers do no harm", "[cuda][event_pool]") {
  const DeviceUnderTest device;
  EventPool pool(device.context, 2);
  const auto other = pool.record(device.stream.handle(), 1, 1);
  for (int failure = 0; failure < 3; ++failure) {
    const auto ticket = pool.record(device.stream.handle(), 2, 7);
    REQUIRE(ticket);
    if (failure == 1) CHECK(pool.give_back(*ticket));
    pool.give_up(7);
    CHECK(pool.available() == 1);
    CHECK(pool.give_back(*ticket));
    CHECK(pool.available() == 1);
  }
  pool.give_up(7);
  CHECK(pool.available() == 1);
  const auto next = pool.record(device.stream.handle());
  REQUIRE(next);
  CHECK(pool.give_back({next->index, next->generation - 1}));
  CHECK(pool.available() == 0);
  CHECK(pool.give_back(*next));
  CHECK(pool.give_back(*other));
  CHECK(!pool.give_back(*other));
  CHECK(pool.available() == 2);
}

TEST_CASE("an event that was given up is not recorded anew before it is done", "[cuda][event_pool]") {
  const DeviceUnderTest device;
  const Stream other(device.context);
  EventPool pool(device.context, 2);
  const auto record = [&] { return pool.record(other.handle()); };
  HeldStream held(device);
  const auto trusted = pool.record(device.stream.handle(), 2, 7);
  REQUIRE(trusted);
  CHECK(pool.give_back(*trusted));
  pool.give_up(7);
  // It is the next in turn for the second of these, and passed over.
  for (int round = 0; round < 2; ++round) {
    CHECK(pool.available() == 2);
    const auto ticket = record();
    REQUIRE(ticket);
    CHECK(ticket->index != trusted->index);
    CHECK(pool.available() == 1);
    CHECK(!pool.can_record());
    CHECK(!record());
    CHECK(pool.give_back(*ticket));
    CHECK(pool.can_record());
  }
  held.drain();
  const auto again = record();
  REQUIRE(again);
  CHECK(again->index == trusted->index);
  CHECK(again->generation == trusted->generation + 1);
  // What is given back in the usual way nobody asks for.
  CHECK(record());
  CHECK(!pool.can_record());
  HeldStream held_again(device, other.handle());
  CHECK(pool.give_back(*again));
  CHECK(pool.can_record());
  const auto behind = record();
  REQUIRE(behind);
  CHECK(pool.give_back(*behind));
  CHECK(record());
  held_again.drain();
}

TEST_CASE("the events of a pool are not opened by their own process", "[cuda][event_pool]") {
  const DeviceUnderTest device;
  const EventPool pool(device.context, 1);
  CHECK_THROWS_AS(ImportedEvents(device.context, pool.handles(), 0), CudaError);
}

TEST_CASE("what another process wrote before its event is there behind the wait for it", "[cuda][event_pool]") {
  for (const int seed : {1, 2, 3, 4, 5}) {
    const DeviceUnderTest device;
    Child writer({"writer"}, {"FAKECUDA_SEED=" + std::to_string(seed)});
    const auto bytes = static_cast<std::size_t>(std::stoul(writer.hear()));
    const auto memory_handle = from_text<IpcMemoryHandle>(writer.hear());
    const auto event_handle = from_text<IpcEventHandle>(writer.hear());
    Address memory = 0;
    {
      const Current current(device.context);
      device.driver().must(device.driver().cuIpcOpenMemHandle, &memory, memory_handle, kIpcLazyPeerAccess);
    }
    {
      const ImportedEvents events(device.context, std::span(&event_handle, 1), 7);
      for (int round = 1; round <= 20; ++round) {
        writer.say("write");
        const auto ticket = from_text<EventTicket>(writer.hear());
        events.wait(ticket, device.stream.handle());
        REQUIRE(device.holds(memory, bytes, static_cast<std::byte>(round)));
        REQUIRE(events.done(ticket));
      }
    }
    const Current current(device.context);
    CHECK(device.driver().cuIpcCloseMemHandle(memory) == Result::success);
    writer.say("end");
    const auto ended = writer.wait();
    CHECK(ended.error.empty());
    CHECK(ended.status == 0);
  }
}

TEST_CASE("the host sees when an event of another process is done", "[cuda][event_pool]") {
  const DeviceUnderTest device;
  Child holder({"holder"});
  {
    const auto handle = from_text<IpcEventHandle>(holder.hear());
    const ImportedEvents events(device.context, std::span(&handle, 1), 7);
    const auto ticket = from_text<EventTicket>(holder.hear());
    CHECK(!events.done(ticket));
    holder.say("let go");
    CHECK(holder.hear() == "done");
    CHECK(events.done(ticket));
    CHECK_THROWS_AS(events.done({.index = 1, .generation = 1}), RegionError);
  }
  holder.say("end");
  CHECK(holder.wait().status == 0);
}
