#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>

#include "runtime/control.hpp"
#include "runtime/engine.hpp"
#include "tests/runtime/hub_client.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/still.hpp"

namespace rondo::testing {

/// The engine of rank 0 of 3. Time passes when the test says so, and the test speaks for the hub.
struct WatchedRank {
  WatchedRank() {
    detail::Welcome welcome;
    welcome.key = detail::JobKey::random();
    welcome.size = 3;
    hub.tell(welcome);
    detail::Identity identity;
    identity.size = 3;
    identity.meeting.kind = detail::MeetingPoint::Kind::descriptor;
    identity.meeting.descriptor = inherited;
    control.emplace(identity, Config{});
    engine.use(*control);
  }

  HubClient one_end() {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) throw std::runtime_error("socketpair");
    inherited = pair[1];
    return {context, detail::Descriptor(pair[0])};
  }
  static detail::Engine::Settings settings() {
    detail::Engine::Settings settings;
    settings.size = 3;
    return settings;
  }
  /// In steps of a tick's, as it does for who waits.
  void pass(detail::Duration time) {
    for (const detail::Time until = clock.time + time; clock.time < until;) {
      clock.time += std::chrono::milliseconds(20);
      engine.tick(clock.time);
    }
  }
  void tell(const detail::Notice& notice) {
    hub.tell(notice);
    pollfd told{control->descriptor(), POLLIN, 0};
    REQUIRE(::poll(&told, 1, 20'000) == 1);
    engine.tick(clock.time);
  }
  /// What the hub has heard up to here.
  std::vector<detail::Notice> heard() {
    detail::Notice marker;
    marker.kind = detail::Notice::Kind::failed;
    control->tell(marker);
    std::vector<detail::Notice> notices;
    for (auto next = hub.expect<detail::Notice>(); next.kind != marker.kind; next = hub.expect<detail::Notice>()) {
      notices.push_back(std::move(next));
    }
    return notices;
  }

  asio::io_context context{1};
  int inherited = -1;
  HubClient hub = one_end();
  std::optional<detail::Control> control;
  SetClock clock;
  NoWaiter waiter;
  std::vector<std::string> lines;
  detail::Engine engine{
      settings(), clock, waiter,
      detail::Log(LogLevel::warn, 0, [this](LogLevel, std::string_view line) { lines.emplace_back(line); })};
};

}  // namespace rondo::testing
