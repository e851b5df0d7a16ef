#include "runtime/hub.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <fmt/format.h>

#include <rondo/error.hpp>

#include "runtime/endpoint.hpp"
#include "transport/system_errors.hpp"

// The hub's connections: who comes, who is let in, what is read and written. What it means is in hub_job.cpp.
//
// Every handler finds its connection by id and may find it gone; none holds a pointer to one. Connections are removed
// in `drop` only, never while another function of the hub still works on one.

namespace rondo::detail {
namespace {

constexpr auto kAcceptPause = std::chrono::milliseconds(100);  // when the system has no descriptor left, say
constexpr int kAcceptBurst = 16;

/// Who is at the other end, as far as the system knows; nothing where it is another user's process.
std::optional<std::string> remote_name(int socket) {
  asio::ip::tcp::endpoint endpoint;
  auto length = static_cast<socklen_t>(endpoint.capacity());
  if (::getpeername(socket, endpoint.data(), &length) != 0) return "a connection that already ended";
  if (endpoint.data()->sa_family != AF_UNIX) return to_string(endpoint);
  ucred owner{};
  length = sizeof owner;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &owner, &length) != 0 || owner.uid != ::geteuid()) {
    return std::nullopt;
  }
  return fmt::format("pid {}", owner.pid);
}

}  // namespace

Hub::Hub(asio::io_context& context, Job job, Log log)
    : context_(context),
      job_(std::move(job)),
      log_(std::move(log)),
      members_(static_cast<std::size_t>(job_.size)),
      deadline_(context),
      alive_(std::make_shared<int>(0)) {}

Hub::~Hub() { alive_.reset(); }

void Hub::adopt(int descriptor, int rank) {
  Descriptor socket(descriptor);
  if (rank < 0 || rank >= job_.size || members_[static_cast<std::size_t>(rank)].connection) {
    throw Error(Errc::invalid_argument,
                fmt::format("hub: got a connection of rank {}, wanted one each of 0 to {}", rank, job_.size - 1));
  }
  const Id id = next_id_++;
  const auto where = fmt::format("rank {}", rank);
  auto& connection = connections_.try_emplace(id, context_, std::move(socket), where, unsent_limit()).first->second;
  connection.rank = rank;
  members_[static_cast<std::size_t>(rank)].connection = id;
  members_[static_cast<std::size_t>(rank)].adopted = true;
  members_[static_cast<std::size_t>(rank)].where = where;
  arm_read(id);
  write(id, encode(Welcome{job_.key, job_.id, job_.attempt, rank, job_.size}));
}

std::string Hub::listen_tcp(const std::string& host, std::uint16_t port) {
  const auto endpoints = resolve(host, port);
  for (std::size_t i = 0;; ++i) {
    try {
      Descriptor socket = listen_on(endpoints[i]);
      const auto bound = bound_to(socket.get());
      listen(socket.release());
      watch_hosts();
      return to_string(bound);
    } catch (const Error& error) {
      // Whoever calls would take the one that has the address for us: the next address is for hosts that lack the
      // first.
      if (error.code() == Errc::address_in_use || i + 1 == endpoints.size()) throw;
    }
  }
}

std::string Hub::listen_unix(const std::string& abstract_name) {
  listen(listen_on_name(abstract_name).release());
  return "unix:@" + abstract_name;
}

// A rank that computes reads nothing, so the kernel cannot tell.
void Hub::watch_hosts() {
  constexpr std::chrono::seconds kBetweenLooks{1};
  silence_.expires_after(kBetweenLooks);
  silence_.async_wait(while_alive([this](asio::error_code failed) {
    if (failed || closing_) return;
    std::vector<Id> lost;
    for (auto& [id, connection] : connections_) {
      if (host_is_silent(connection.stream.native_handle())) lost.push_back(id);
    }
    for (const Id id : lost) drop(id, fmt::format("its host has not answered for {} s", kSilenceSeconds));
    watch_hosts();
  }));
}

void Hub::listen(int socket) { arm_accept(listeners_.emplace_back(context_, socket)); }

void Hub::arm_accept(Listener& listener) {
  listener.stream.async_wait(asio::posix::stream_descriptor::wait_read, while_alive([&](asio::error_code failed) {
                               if (!failed && !closing_) accept(listener);
                             }));
}

void Hub::accept(Listener& listener) {
  for (int i = 0; i < kAcceptBurst; ++i) {
    Descriptor socket(::accept4(listener.stream.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      if (try_again(errno) || errno == ECONNABORTED) break;
      log_.warn("hub: cannot accept a connection: {}", system_text(errno));
      listener.pause.expires_after(kAcceptPause);
      return listener.pause.async_wait(while_alive([&](asio::error_code failed) {
        if (!failed && !closing_) arm_accept(listener);
      }));
    }
    end_when_host_is_lost(socket.get());
    if (auto name = remote_name(socket.get())) {
      add(socket.release(), *name);
    } else {
      ++refused_;
      last_refusal_ = "a process of another user";
    }
  }
  arm_accept(listener);
}

void Hub::add(int socket, const std::string& where) {
  Descriptor owner(socket);
  make_room();
  const Id id = next_id_++;
  auto& connection = connections_.try_emplace(id, context_, std::move(owner), where, unsent_limit()).first->second;
  HandshakeTerms terms;
  terms.role = ConnectionRole::hub;
  terms.job_id = job_.id;
  terms.attempt = job_.attempt;
  terms.size = job_.size;
  terms.rank = kHubRank;
  connection.handshake = Handshake::accept(std::move(terms), job_.key);
  connection.timer.expires_after(job_.limits.handshake);
  connection.timer.async_wait(while_alive([this, id](asio::error_code failed) {
    // Its last word and the deadline may have come together.
    const auto found = connections_.find(id);
    if (!failed && found != connections_.end() && found->second.rank < 0) drop(id, "silent");
  }));
  arm_read(id);
}

std::size_t Hub::half_open() const noexcept {
  return static_cast<std::size_t>(
      std::count_if(connections_.begin(), connections_.end(), [](const auto& c) { return c.second.rank < 0; }));
}

/// Strangers cannot keep others out: the one that has waited longest goes.
void Hub::make_room() {
  if (half_open() < job_.limits.half_open) return;
  const auto oldest =
      std::find_if(connections_.begin(), connections_.end(), [](const auto& c) { return c.second.rank < 0; });
  if (oldest != connections_.end()) drop(oldest->first, "too many connections that do not say who they are");
}

std::size_t Hub::unsent_limit() const noexcept {
  return job_.limits.unsent_bytes + members_.size() * (ControlReader::kMaxAddresses + sizeof(std::uint32_t));
}

void Hub::arm_read(Id id) {
  connections_.at(id).stream.async_wait(asio::posix::stream_descriptor::wait_read,
                                        while_alive([this, id](asio::error_code failed) {
                                          if (failed || !connections_.contains(id)) return;
                                          read_some(id);
                                          if (connections_.contains(id)) arm_read(id);
                                        }));
}

void Hub::arm_write(Id id, HubConnection& connection) {
  if (connection.waiting_to_write || !connection.unsent()) return;
  connection.waiting_to_write = true;
  connection.stream.async_wait(asio::posix::stream_descriptor::wait_write,
                               while_alive([this, id](asio::error_code failed) {
                                 const auto found = connections_.find(id);
                                 if (failed || found == connections_.end()) return;
                                 found->second.waiting_to_write = false;
                                 if (!found->second.flush()) return drop(id, "its control connection broke");
                                 if (found->second.last_words) return retire(found->second);
                                 arm_write(id, found->second);
                               }));
}

/// False when nothing more is to be had from this connection for now.
bool Hub::read_some(Id id) {
  auto& connection = connections_.at(id);
  if (connection.handshake && ends()) connection.handshake->close();
  const auto input = connection.read();
  if (input == HubConnection::Input::some && !connection.last_words) {
    if (connection.handshake) {
      shake_hands(id, connection);
    } else {
      take_messages(id, connection);
    }
  }
  if (input == HubConnection::Input::ended) drop(id, "its control connection ended without a goodbye");
  return input == HubConnection::Input::some && connections_.contains(id);
}

void Hub::take_messages(Id id, HubConnection& connection) {
  std::string broken;
  try {
    while (const auto message = connection.next()) take(connection.rank, *message);
  } catch (const Error& error) {
    broken = error.cause();
  }
  if (!broken.empty()) drop(id, broken);
}

void Hub::shake_hands(Id id, HubConnection& connection) {
  Handshake& handshake = *connection.handshake;
  if (handshake.deciding()) handshake.answer(admission(handshake.peer()));
  if (!connection.flush()) return drop(id, "its connection broke");
  if (!handshake.done()) return arm_write(id, connection);
  if (handshake.verdict() == Verdict::accepted) {
    admit(id, connection, handshake.peer().rank);
    return arm_write(id, connection);
  }
  refuse(id, connection);
}

void Hub::refuse(Id id, HubConnection& connection) {
  const Handshake handshake = *connection.handshake;
  if (handshake.verdict() == Verdict::garbage) return drop(id, handshake.text());
  ++refused_;
  last_refusal_ = fmt::format("{}: {}", connection.where, handshake.text());
  log_.info("hub: turned away {}", last_refusal_);
  retire(connection);
  arm_write(id, connection);
  refused_member(handshake, connection.where);
}

/// Lets the other side read why, and end first: ending with unread bytes could cut off what was written.
void Hub::retire(HubConnection& connection) {
  connection.last_words = true;
  if (!connection.unsent()) connection.finish_sending();
}

void Hub::write(Id id, const std::string& bytes) {
  const auto found = connections_.find(id);
  if (found == connections_.end() || found->second.last_words) return;
  if (found->second.send(bytes)) return arm_write(id, found->second);
  // Not now: whoever writes may be in the middle of a list of connections.
  found->second.last_words = true;
  asio::post(context_, while_alive([this, id] { drop(id, "it does not read its control connection"); }));
}

/// What only helps who waits. A rank that computes reads nothing for long: it is not to be given up for advice.
void Hub::advise(int rank, const Notice& notice) {
  const auto& id = members_[static_cast<std::size_t>(rank)].connection;
  const auto found = id ? connections_.find(*id) : connections_.end();
  if (found != connections_.end() && !found->second.unsent()) write(*id, encode(notice));
}

void Hub::drop(Id id, const std::string& cause) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  const int rank = found->second.rank;
  if (rank < 0 && !found->second.last_words) {
    ++refused_;
    last_refusal_ = fmt::format("{}: {}", found->second.where, cause);
    log_.info("hub: turned away {}", last_refusal_);
  }
  connections_.erase(found);
  if (rank >= 0) lost(rank, cause);
}

void Hub::close() {
  closing_ = true;
  listeners_.clear();
  deadline_.cancel();
  silence_.cancel();
  awaited_ends_.clear();
  for (auto it = connections_.begin(); it != connections_.end();) {
    auto& [id, connection] = *it;
    if (connection.rank < 0 || !connection.flush()) {
      it = connections_.erase(it);
      continue;
    }
    retire(connection);
    arm_write(id, connection);
    ++it;
  }
}

}  // namespace rondo::detail
