#include "runtime/mesh.hpp"

#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include <rondo/error.hpp>

#include "runtime/cores.hpp"
#include "runtime/endpoint.hpp"
#include "runtime/engine.hpp"
#include "transport/self_link.hpp"
#include "transport/shm_offer.hpp"
#include "transport/socket_link.hpp"
#include "transport/system_errors.hpp"

namespace rondo::detail {
namespace {

// A connection that ended without a word is tried so often before another transport is, or the peer counts as
// unreachable.
constexpr int kTries = 3;
// Who calls has so long to say who it is where many others wait for their turn.
constexpr Duration kPatienceWithStrangers = std::chrono::seconds(1);
constexpr int kRefusalsTold = 8;

std::string random_socket_name() {
  std::array<std::uint64_t, 2> bits{};
  if (::getrandom(bits.data(), sizeof bits, 0) != sizeof bits) {
    throw Error(Errc::system, "no random bytes for the name of a socket: " + system_text(errno));
  }
  return fmt::format("rondo-{:016x}{:016x}", bits[0], bits[1]);
}

asio::ip::tcp::endpoint local_endpoint(const Config& config, const std::string& local_address) {
  if (!config.interface.empty()) return {interface_address(config.interface), 0};
  return {local_address.empty() ? asio::ip::make_address("127.0.0.1") : asio::ip::make_address(local_address), 0};
}

}  // namespace

/// One connection being made, by us or by another rank.
struct Mesh::Attempt {
  Descriptor socket;
  Handshake handshake;
  int rank = kAnyRank;  // known from the start, or once the other has proved it
  bool started_here = false;
  bool over_unix = false;
  int tries = 1;
  Time since{};
  ShmOffer offer;
  std::string no_unix;  // why TCP, where a Unix socket was tried; empty: it was not
  bool agreed = false;  // on what carries the frames
};

bool Mesh::is_stranger(const std::unique_ptr<Attempt>& attempt) { return attempt->rank == kAnyRank; }

Mesh::Mesh(const Identity& identity, const Config& config, const Log& log, const Control& control)
    : identity_(identity), config_(config), log_(log), spare_(::eventfd(0, EFD_CLOEXEC)) {
  mine_.host_id = host_id();
  mine_.cores = cores_of_host();
  mine_.affinity = own_affinity();
  mine_.unexpected_bytes = config.unexpected_bytes;
  mine_.transport = to_string(config.transport);
  if (config.transport != Transport::tcp) {
    mine_.unix_name = random_socket_name();
    unix_listener_ = listen_on_name(mine_.unix_name);
  }
  const std::string& local_address = control.local_address();
  const bool met_on_host = local_address.empty() || asio::ip::make_address(local_address).is_loopback();
  const bool one_host = identity.local_size ? *identity.local_size == identity.size : met_on_host;
  if (config.transport == Transport::tcp || (config.transport == Transport::automatic && !one_host)) {
    const auto endpoint = local_endpoint(config, local_address);
    // Any other is that of the meeting.
    if (!config.interface.empty()) control.check_secure(endpoint.address());
    tcp_listener_ = listen_on(endpoint);
    mine_.tcp = to_string(bound_to(tcp_listener_.get()));
  }
}

Mesh::~Mesh() = default;

void Mesh::open(const Control& control, Engine& engine) {
  engine_ = &engine;
  job_id_ = control.job_id();
  attempt_ = control.attempt();
  key_ = control.key();
  for (const std::string& packed : control.addresses()) addresses_.push_back(Address::unpack(packed));
  check_same_settings(addresses_);
  engine.agree(oversubscribed(addresses_), hosts(addresses_));
  engine.share_cores(cores_of_affinity(mine_.affinity), core_places(addresses_, identity_.rank));
  engine.peer(identity_.rank).attach(std::make_unique<SelfLink>());
}

HandshakeTerms Mesh::terms(int peer) const {
  return {ConnectionRole::link, job_id_, attempt_, identity_.size, identity_.rank, peer};
}

void Mesh::connect(int world_rank) {
  const bool coming = std::any_of(accepted_.begin(), accepted_.end(), [&](const auto& attempt) {
    return attempt->rank == world_rank && attempt->handshake.verdict() == Verdict::accepted;
  });
  if (!coming && !connecting_.contains(world_rank)) start(world_rank, "");
}

// Starts towards a rank by the best transport that may work. `no_unix`: why not by a Unix socket; empty: it may.
void Mesh::start(int world_rank, const std::string& no_unix) {
  const Address& to = addresses_[static_cast<std::size_t>(world_rank)];
  const bool over_unix = no_unix.empty() && config_.transport != Transport::tcp && same_host(to);
  if (!over_unix && to.tcp.empty()) {
    return engine_->peer_unreachable(
        world_rank,
        fmt::format("it is on {} and listens on no TCP port (RONDO_TRANSPORT={})",
                    same_host(to) ? "this host" : apart(mine_.host_id, to.host_id), to_string(config_.transport)));
  }
  auto attempt = std::make_unique<Attempt>(Attempt{{},
                                                   Handshake::initiate(terms(world_rank), key_),
                                                   world_rank,
                                                   true,
                                                   over_unix,
                                                   1,
                                                   engine_->clock().now(),
                                                   ShmOffer(true, no_shared_memory()),
                                                   no_unix});
  std::string cause;
  attempt->socket = call(to, over_unix, cause);
  if (!attempt->socket && over_unix && !to.tcp.empty()) {
    return start(world_rank, "its unix socket cannot be reached: " + cause);
  }
  if (!attempt->socket) {
    return engine_->peer_unreachable(world_rank,
                                     fmt::format("{}: {}", over_unix ? "unix:@" + to.unix_name : to.tcp, cause));
  }
  connecting_[world_rank] = std::move(attempt);
}

bool Mesh::may_reach(int world_rank, Time called_by) const {
  return connecting_.contains(world_rank) || std::any_of(accepted_.begin(), accepted_.end(), [&](const auto& attempt) {
           return (is_stranger(attempt) && attempt->since <= called_by) || attempt->rank == world_rank;
         });
}

std::size_t Mesh::poll() {
  std::size_t moved = 0;
  if (unix_listener_) moved += accept_from(unix_listener_);
  if (tcp_listener_) moved += accept_from(tcp_listener_);
  std::vector<int> ranks;
  for (const auto& [rank, attempt] : connecting_) ranks.push_back(rank);
  for (const int rank : ranks) {
    const auto found = connecting_.find(rank);
    if (found == connecting_.end() || !step(*found->second)) continue;
    ++moved;
    auto ended = connecting_.extract(rank);
    if (ended) established(*ended.mapped());
  }
  for (std::size_t i = 0; i < accepted_.size();) {
    if (!step(*accepted_[i])) {
      ++i;
      continue;
    }
    ++moved;
    const auto ended = std::move(accepted_[i]);
    accepted_.erase(accepted_.begin() + static_cast<std::ptrdiff_t>(i));
    established(*ended);
  }
  return moved;
}

std::size_t Mesh::accept_from(const Descriptor& listener) {
  std::size_t accepted = 0;
  while (has_room()) {
    Descriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket && turn_away(listener, errno)) continue;
    if (!socket) return accepted;
    ++accepted;
    if (&listener == &unix_listener_ && !same_user(socket.get())) {
      log_.warn("refused a connection: a process of another user called");
      continue;
    }
    if (const auto oldest = oldest_stranger(); is_full() && oldest != accepted_.end()) accepted_.erase(oldest);
    accepted_.push_back(std::make_unique<Attempt>(
        Attempt{std::move(socket), Handshake::accept(terms(kAnyRank), key_), kAnyRank, false,
                &listener == &unix_listener_, 1, engine_->clock().now(), ShmOffer(false, no_shared_memory()), ""}));
  }
  return accepted;
}

std::vector<std::unique_ptr<Mesh::Attempt>>::const_iterator Mesh::oldest_stranger() const {
  return std::find_if(accepted_.begin(), accepted_.end(), is_stranger);
}

// Of those who have not said yet who they are there may be so many. The others wait in the listener's queue: a job may
// have more ranks than that.
bool Mesh::is_full() const {
  return static_cast<std::size_t>(std::count_if(accepted_.begin(), accepted_.end(), is_stranger)) >=
         config_.half_open_limit;
}

// For one more, if need be in the place of one that has said nothing for long.
bool Mesh::has_room() const {
  if (!is_full()) return true;
  const auto oldest = oldest_stranger();
  return oldest == accepted_.end() || engine_->clock().now() - (*oldest)->since >= kPatienceWithStrangers;
}

// Who calls a process that has no descriptor left hears at once that nothing comes of it. False: nobody calls.
bool Mesh::turn_away(const Descriptor& listener, int error) {
  if (error != EMFILE && error != ENFILE) {
    const bool passes = try_again(error) || error == ECONNABORTED;
    if (!passes && engine_->first_time("accept")) {
      log_.error("cannot take the connection of another rank: {}", system_text(error));
    }
    return false;
  }
  spare_.reset();
  const bool called{Descriptor(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC))};
  spare_ = Descriptor(::eventfd(0, EFD_CLOEXEC));
  if (called && engine_->first_time("no descriptor")) {
    log_.error("cannot take the connection of another rank: {}{}", system_text(error),
               error == EMFILE ? " (ulimit -n)" : "");
  }
  return called;
}

// Why frames shall not go through shared memory; empty: they may.
std::string Mesh::no_shared_memory() const {
  return config_.transport == Transport::unix_socket ? "RONDO_TRANSPORT=unix" : "";
}

// Why this connection has none; empty: it has.
std::string Mesh::no_shared_memory(const Attempt& attempt) const {
  if (attempt.over_unix) return attempt.offer.reason();
  if (config_.transport == Transport::tcp) return "RONDO_TRANSPORT=tcp";
  const Address& other = addresses_[static_cast<std::size_t>(attempt.rank)];
  if (!same_host(other)) return std::string(apart(mine_.host_id, other.host_id));
  return attempt.started_here ? attempt.no_unix : "it cannot reach the unix socket of this rank";
}

// Moves what has to be said before the first frame. True: it is over, for better or worse.
bool Mesh::step(Attempt& attempt) {
  const bool accepted = attempt.handshake.done() && attempt.handshake.verdict() == Verdict::accepted;
  if (!(accepted && attempt.handshake.output().empty()) && !shake_hands(attempt)) return false;
  if (attempt.handshake.verdict() != Verdict::accepted || !attempt.handshake.output().empty() || !attempt.over_unix) {
    return true;
  }
  const ShmOffer::Progress progress = attempt.offer.step(attempt.socket);
  attempt.agreed = progress == ShmOffer::Progress::agreed;
  return progress != ShmOffer::Progress::pending;
}

// Moves a handshake. True: it is over, for better or worse.
bool Mesh::shake_hands(Attempt& attempt) {
  for (;;) {
    while (!attempt.handshake.output().empty()) {
      const auto output = attempt.handshake.output();
      const ssize_t written = ::send(attempt.socket.get(), output.data(), output.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (written < 0) return !try_again(errno);
      attempt.handshake.sent(static_cast<std::size_t>(written));
    }
    if (attempt.handshake.deciding()) {
      decide(attempt);
      continue;
    }
    if (attempt.handshake.done()) return true;
    std::array<std::byte, 256> input;
    const std::size_t wanted = std::min(input.size(), attempt.handshake.wanted());
    const ssize_t got = ::recv(attempt.socket.get(), input.data(), wanted, MSG_DONTWAIT);
    if (got < 0 && (try_again(errno) || errno == ENOTCONN)) {
      return !attempt.started_here && engine_->clock().now() - attempt.since > config_.handshake_timeout;
    }
    if (got <= 0) return true;
    attempt.handshake.feed(std::span(input).first(static_cast<std::size_t>(got)));
  }
}

// Somebody has proved who it is: is this the connection to keep?
void Mesh::decide(Attempt& attempt) {
  const int rank = attempt.handshake.peer().rank;
  attempt.rank = rank;
  const Peer& peer = engine_->peer(rank);
  const auto mine = connecting_.find(rank);
  // The other side may not know yet that the connection started here is the one that stays.
  const bool ours_counts = mine != connecting_.end() || peer.connected();
  if (rank != identity_.rank && ours_counts && Handshake::refuse_crossed(identity_.rank, rank)) {
    return attempt.handshake.answer(Verdict::crossed);
  }
  if (rank == identity_.rank || peer.connected()) return attempt.handshake.answer(Verdict::duplicate_rank);
  if (peer.gone()) return attempt.handshake.answer(Verdict::closing);
  if (mine != connecting_.end()) connecting_.erase(mine);
  attempt.handshake.answer(Verdict::accepted);
}

// A handshake is over: a link, or not.
void Mesh::established(Attempt& attempt) {
  if (attempt.handshake.verdict() == Verdict::accepted && attempt.handshake.output().empty()) {
    if (attempt.agreed || !attempt.over_unix) return attach(attempt);
    if (attempt.started_here) failed(attempt, "the connection was closed before shared memory was agreed on");
    return;
  }
  if (!attempt.started_here) {
    const Verdict verdict = attempt.handshake.verdict();
    // Whose own connection stays, or who has gone before it heard that this one does.
    if (verdict == Verdict::pending || verdict == Verdict::crossed || verdict == Verdict::accepted) return;
    return tell_refusal(attempt.handshake.text());
  }
  switch (attempt.handshake.verdict()) {
    case Verdict::crossed: return;  // theirs is on its way
    case Verdict::pending: return failed(attempt, "the connection was closed during the handshake");
    default: return engine_->peer_unreachable(attempt.rank, attempt.handshake.text());
  }
}

// A stranger gets no more than this line, and many of them not each its own.
void Mesh::tell_refusal(const std::string& reason) {
  if (++refusals_ > kRefusalsTold) return log_.info("refused a connection: {}", reason);
  log_.warn("refused a connection: {}{}", reason, refusals_ == kRefusalsTold ? " (RONDO_LOG=info tells of more)" : "");
}

void Mesh::attach(Attempt& attempt) {
  const std::string reason = no_shared_memory(attempt);
  if (attempt.over_unix && !reason.empty() && config_.transport == Transport::shm) {
    return engine_->peer_unreachable(attempt.rank, "RONDO_TRANSPORT=shm, but there is no shared memory: " + reason);
  }
  const int patience = engine_->settings().idle.spin > Duration::zero() ? SocketLink::kPatience : 1;
  auto link = attempt.over_unix
                  ? attempt.offer.make_link(std::move(attempt.socket))
                  : std::make_unique<SocketLink>(std::move(attempt.socket), SocketLink::kSpillBytes, patience);
  tell(attempt, *link, reason);
  engine_->peer(attempt.rank).attach(std::move(link), reason);
}

// Who asked for nothing else expects shared memory on one machine, in other containers too: the first time for each
// reason it hears without asking.
void Mesh::tell(const Attempt& attempt, const Link& link, const std::string& reason) {
  const bool expected = config_.transport == Transport::automatic &&
                        same_kernel(mine_.host_id, addresses_[static_cast<std::size_t>(attempt.rank)].host_id);
  if (expected && !reason.empty() && engine_->first_time(reason)) {
    log_.warn("no shared memory with ranks of this host, {} instead: {} (first with rank {})", link.transport(), reason,
              attempt.rank);
  }
  const std::string long_messages = link.long_messages();
  log_.info("rank {}: {}, connected from {}{}{}{}{}", attempt.rank, link.transport(),
            attempt.started_here ? "here" : "there", long_messages.empty() ? "" : ", long messages ", long_messages,
            reason.empty() ? "" : ", no shared memory: ", reason);
}

void Mesh::failed(Attempt& attempt, const std::string& cause) {
  if (attempt.tries >= kTries) {
    const bool has_tcp = !addresses_[static_cast<std::size_t>(attempt.rank)].tcp.empty();
    if (attempt.over_unix && has_tcp) return start(attempt.rank, "its unix socket cannot be reached: " + cause);
    return engine_->peer_unreachable(attempt.rank, cause);
  }
  start(attempt.rank, attempt.no_unix);
  if (const auto again = connecting_.find(attempt.rank); again != connecting_.end()) {
    again->second->tries = attempt.tries + 1;
  }
}

void Mesh::watch(WakeList& wakes) const {
  if (has_room()) {
    wakes.add(unix_listener_.get(), false);
    wakes.add(tcp_listener_.get(), false);
  }
  const auto add = [&](const Attempt& attempt) {
    wakes.add(attempt.socket.get(), !attempt.handshake.output().empty());
  };
  for (const auto& [rank, attempt] : connecting_) add(*attempt);
  for (const auto& attempt : accepted_) add(*attempt);
}

}  // namespace rondo::detail
