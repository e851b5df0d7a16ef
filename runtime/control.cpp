#include "runtime/control.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

#include <fmt/format.h>

#include <rondo/error.hpp>

#include "runtime/deadline_wait.hpp"
#include "runtime/hub_thread.hpp"
#include "transport/system_errors.hpp"

// Talking to the hub. How a rank gets to it is in control_connect.cpp.

namespace rondo::detail {
namespace {

constexpr std::size_t kUnsentLimit = std::size_t{1} << 20;
constexpr auto kGoodbyeWait = std::chrono::milliseconds(200);
/// The hub's own deadline comes first: it knows who is missing.
constexpr auto kHubMargin = std::chrono::seconds(2);

}  // namespace

Control::~Control() {
  // Our end first, so that a hub of ours does not wait for it.
  socket_.reset();
}

void Control::join(std::string_view my_addresses) {
  if (my_addresses.size() > ControlReader::kMaxAddresses) {
    throw Error(Errc::invalid_argument, fmt::format("rank {}: got {} bytes of addresses, wanted at most {}",
                                                    identity_.rank, my_addresses.size(), ControlReader::kMaxAddresses));
  }
  if (!socket_) {
    addresses_ = {std::string(my_addresses)};
    return;
  }
  const Time until = deadline_ + kHubMargin;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - std::chrono::steady_clock::now());
  unsent_ +=
      encode(Join{std::string(my_addresses), static_cast<std::uint64_t>(std::max<std::int64_t>(left.count(), 1))});
  DeadlineWait wait;
  while (flush() && !unsent_.empty() && wait.writable(socket_.get(), until)) {
  }
  for (;;) {
    ControlMessage message = receive(until);
    if (auto* table = std::get_if<Table>(&message)) {
      if (table->addresses.size() != static_cast<std::size_t>(identity_.size)) {
        throw Error(Errc::protocol, fmt::format("rank {}: got the addresses of {} ranks, wanted {}", identity_.rank,
                                                table->addresses.size(), identity_.size));
      }
      addresses_ = std::move(table->addresses);
      return;
    }
    const auto notice = take(std::move(message));
    if (notice && notice->kind == Notice::Kind::abort) throw Error(notice->code, notice->text);
  }
}

ControlMessage Control::receive(Time until) {
  std::array<std::byte, 4096> buffer;
  DeadlineWait wait;
  for (;;) {
    if (auto message = reader_.next()) return std::move(*message);
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got > 0) {
      reader_.feed(std::span(buffer).first(static_cast<std::size_t>(got)));
    } else if (got == 0 || !try_again(errno)) {
      throw Error(Errc::bootstrap_failed, fmt::format("rank {}: the hub at {} ended before all ranks had joined: {}",
                                                      identity_.rank, to_string(identity_.meeting),
                                                      got == 0 ? "it closed the connection" : system_text(errno)));
    } else if (!wait.readable(socket_.get(), until)) {
      throw Error(Errc::bootstrap_failed,
                  fmt::format("rank {}: no answer from the hub at {} within {}, wanted the addresses of {} ranks",
                              identity_.rank, to_string(identity_.meeting), seconds_text(config_.init_timeout),
                              identity_.size));
    }
  }
}

std::optional<Notice> Control::take(ControlMessage message) {
  auto* notice = std::get_if<Notice>(&message);
  if (notice == nullptr) throw Error(Errc::protocol, "control message: got one out of turn");
  if (notice->kind == Notice::Kind::left && notice->rank == 0) hub_left_ = true;
  return std::move(*notice);
}

std::optional<Notice> Control::poll() {
  if (!socket_) return std::nullopt;
  try {
    if (auto message = reader_.next()) return take(std::move(*message));
    if (!unsent_.empty()) flush();
    std::array<std::byte, 4096> buffer;
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && try_again(errno)) return std::nullopt;
    if (got < 0) return hub_ended(system_text(errno));
    if (got == 0) return hub_ended("its control connection ended without a goodbye");
    reader_.feed(std::span(buffer).first(static_cast<std::size_t>(got)));
    if (auto message = reader_.next()) return take(std::move(*message));
    return std::nullopt;
  } catch (const Error& error) {
    return hub_ended(error.cause());
  }
}

std::optional<Notice> Control::hub_ended(const std::string& cause) {
  ::shutdown(socket_.get(), SHUT_RDWR);
  ended_ = std::move(socket_);
  const bool launcher = identity_.meeting.kind == MeetingPoint::Kind::descriptor;
  if (!launcher && hub_left_) return std::nullopt;
  Notice notice;
  notice.kind = launcher ? Notice::Kind::abort : Notice::Kind::dead;
  notice.rank = launcher ? -1 : 0;
  notice.code = Errc::peer_failed;
  notice.text = launcher ? fmt::format("the launcher ended: {}", cause) : cause;
  return notice;
}

bool Control::flush() noexcept {
  while (!unsent_.empty()) {
    const ssize_t sent = ::send(socket_.get(), unsent_.data(), unsent_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) return try_again(errno);
    unsent_.erase(0, static_cast<std::size_t>(sent));
  }
  return true;
}

void Control::tell(const Notice& notice) noexcept {
  if (!socket_) return;
  try {
    const std::string bytes = encode(notice);
    // A hub that takes nothing for so long is as good as gone; its end will be seen by `poll`.
    if (unsent_.size() + bytes.size() > kUnsentLimit) return;
    unsent_ += bytes;
    flush();
  } catch (const std::exception& error) {
    log_.warn("cannot tell the hub of {}: {}", to_string(notice.kind), error.what());
  }
}

void Control::goodbye() noexcept {
  if (!socket_) return;
  Notice notice;
  notice.kind = Notice::Kind::goodbye;
  notice.rank = identity_.rank;
  tell(notice);
  try {
    const Time until = std::chrono::steady_clock::now() + kGoodbyeWait;
    DeadlineWait wait;
    while (!unsent_.empty() && wait.writable(socket_.get(), until) && flush()) {
    }
  } catch (const std::exception& error) {
    log_.warn("cannot say goodbye to the hub: {}", error.what());
  }
}

}  // namespace rondo::detail
