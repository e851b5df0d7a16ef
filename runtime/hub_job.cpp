#include <algorithm>

#include <fmt/format.h>

#include <rondo/error.hpp>

#include "runtime/deadline_wait.hpp"
#include "runtime/hub.hpp"
#include "transport/printable.hpp"

// What the hub knows of the job: who has joined, who left, who is dead, which communicators failed.

namespace rondo::detail {
namespace {

constexpr std::size_t kMaxStalls = 256;  // communicators on which one rank may be stuck at a time

}  // namespace

Verdict Hub::admission(const HandshakeTerms& peer) const {
  if (closing_) return Verdict::closing;
  const Member& member = members_[static_cast<std::size_t>(peer.rank)];
  if (member.connection) return Verdict::duplicate_rank;
  // Late for a job that failed already: it comes in to be told why.
  if (!failure_ && (member.joined || member.dead)) return Verdict::duplicate_rank;
  return Verdict::accepted;
}

void Hub::admit(Id id, HubConnection& connection, int rank) {
  connection.handshake.reset();
  connection.timer.cancel();
  connection.rank = rank;
  Member& member = members_[static_cast<std::size_t>(rank)];
  member.connection = id;
  member.where = connection.where;
  log_.debug("hub: rank {} is here ({})", rank, connection.where);
  if (failure_) write(id, encode(*failure_));
}

/// Somebody with the job's key who does not fit in: while the ranks still meet, that is a mistake in how they were
/// started, and all of them shall know. A job that runs already is not disturbed.
void Hub::refused_member(const Handshake& handshake, const std::string& where) {
  if (!handshake.authenticated() || phase_ != Phase::gathering) return;
  const HandshakeTerms& peer = handshake.peer();
  Notice notice;
  notice.kind = Notice::Kind::abort;
  notice.rank = peer.rank;
  if (handshake.verdict() == Verdict::duplicate_rank) {
    notice.code = Errc::duplicate_rank;
    notice.text = fmt::format("rank {} is claimed twice: by {} and by {}", peer.rank,
                              members_[static_cast<std::size_t>(peer.rank)].where, where);
    fail(std::move(notice));
  } else if (handshake.verdict() == Verdict::other_size) {
    notice.code = Errc::bad_configuration;
    notice.text = fmt::format("the ranks disagree on the size of the world: rank {} ({}) says {}, the hub {}",
                              peer.rank, where, peer.size, job_.size);
    fail(std::move(notice));
  }
}

void Hub::take(Id id, int rank, const ControlMessage& message) {
  if (const auto* notice = std::get_if<Notice>(&message)) return take_notice(id, rank, *notice);
  const auto* join = std::get_if<Join>(&message);
  if (join == nullptr || members_[static_cast<std::size_t>(rank)].joined) {
    throw Error(Errc::protocol, "control message: got one that only the hub sends, or a second join");
  }
  take_join(rank, *join);
}

void Hub::take_notice(Id, int rank, const Notice& notice) {
  switch (notice.kind) {
    case Notice::Kind::goodbye: return take_goodbye(rank);
    case Notice::Kind::stalled: return take_stalled(rank, notice);
    case Notice::Kind::failed: {
      Notice cause = notice;
      cause.rank = rank;
      return poison(std::move(cause));
    }
    case Notice::Kind::abort: {
      Notice cause = notice;
      cause.rank = rank;
      members_[static_cast<std::size_t>(rank)].left = true;
      return fail(std::move(cause));
    }
    case Notice::Kind::poisoned:
    case Notice::Kind::dead:
    case Notice::Kind::left: break;
  }
  throw Error(Errc::protocol, fmt::format("control message: got {}, which only the hub sends", to_string(notice.kind)));
}

void Hub::take_join(int rank, const Join& join) {
  Member& joining = members_[static_cast<std::size_t>(rank)];
  joining.joined = true;
  joining.addresses = join.addresses;
  if (failure_) return;
  constexpr std::uint64_t century = 3'000'000'000'000;
  shorten_deadline(join.patience_ms == 0 ? job_.deadline
                                         : std::chrono::milliseconds(std::min(join.patience_ms, century)));
  if (!std::all_of(members_.begin(), members_.end(), [](const Member& m) { return m.joined; })) return;

  phase_ = Phase::running;
  deadline_.cancel();
  Table table;
  for (const Member& member : members_) table.addresses.push_back(member.addresses);
  const std::string bytes = encode(table);
  for (const Member& member : members_) {
    if (member.connection) write(*member.connection, bytes);
  }
}

/// Who has waited longest hears first of the ranks that never came, and so do all: no rank gives up alone.
void Hub::shorten_deadline(std::chrono::nanoseconds patience) {
  const auto until = asio::steady_timer::clock_type::now() + patience;
  if (patience_ && until >= deadline_.expiry()) return;
  patience_ = patience;
  deadline_.expires_at(until);
  deadline_.async_wait(while_alive([this](asio::error_code failed) {
    if (!failed && phase_ == Phase::gathering) deadline_passed();
  }));
}

void Hub::take_stalled(int rank, const Notice& notice) {
  auto& stalls = members_[static_cast<std::size_t>(rank)].stalls;
  if (stalls.size() >= kMaxStalls && !stalls.contains(notice.communicator)) stalls.erase(stalls.begin());
  stalls[notice.communicator] = Stall{notice.number, notice.call};
  if (notice.call.collective == Collective::none) return;

  for (int other = 0; other < job_.size; ++other) {
    const auto& theirs = members_[static_cast<std::size_t>(other)].stalls;
    const auto found = theirs.find(notice.communicator);
    if (found == theirs.end() || found->second.number != notice.number || found->second.call == notice.call ||
        found->second.call.collective == Collective::none) {
      continue;
    }
    Notice cause = notice;
    cause.rank = rank;
    cause.code = Errc::collective_mismatch;
    const bool in_order = other < rank;
    cause.text = fmt::format("ranks called different collectives: rank {} called {}, rank {} called {}",
                             in_order ? other : rank, to_string(in_order ? found->second.call : notice.call),
                             in_order ? rank : other, to_string(in_order ? notice.call : found->second.call));
    return poison(std::move(cause));
  }
}

void Hub::take_goodbye(int rank) {
  Member& member = members_[static_cast<std::size_t>(rank)];
  if (phase_ == Phase::gathering) return dead(rank, "it left");
  member.left = true;
  Notice notice;
  notice.kind = Notice::Kind::left;
  notice.rank = rank;
  flood(notice, rank);
}

/// The first cause wins: what other ranks see of the same failure later is a consequence.
void Hub::poison(Notice notice) {
  if (!poisoned_.insert(notice.communicator).second) return;
  notice.kind = Notice::Kind::poisoned;
  flood(notice);
}

void Hub::lost(int rank, const std::string& cause) {
  Member& member = members_[static_cast<std::size_t>(rank)];
  member.connection.reset();
  if (member.left || member.dead || closing_) return;
  if (!member.adopted) return dead(rank, cause);
  // Its launcher will know more in a moment.
  auto& timer = awaited_ends_.try_emplace(rank, context_).first->second;
  timer.expires_after(job_.limits.end_grace);
  timer.async_wait(while_alive([this, rank, cause](asio::error_code failed) {
    if (!failed) dead(rank, cause);
  }));
}

void Hub::report_end(int rank, const std::string& cause) {
  const Member& member = members_[static_cast<std::size_t>(rank)];
  // Its last words may still lie in the socket: a goodbye, or why it gave up.
  if (member.connection) {
    const Id id = *member.connection;
    while (connections_.contains(id) && read_some(id)) {
    }
  }
  dead(rank, cause);
}

void Hub::dead(int rank, const std::string& cause) {
  Member& member = members_[static_cast<std::size_t>(rank)];
  awaited_ends_.erase(rank);
  if (member.left || member.dead) return;
  member.dead = true;
  Notice notice;
  notice.rank = rank;
  notice.code = Errc::peer_failed;
  if (phase_ == Phase::gathering) {
    notice.kind = Notice::Kind::abort;
    notice.text = fmt::format("rank {} ended before all ranks had joined: {}", rank, printable(cause));
    return fail(std::move(notice));
  }
  notice.kind = Notice::Kind::dead;
  notice.text = printable(cause);
  if (!failure_) flood(notice, rank);
}

void Hub::deadline_passed() {
  Notice notice;
  notice.kind = Notice::Kind::abort;
  notice.code = Errc::bootstrap_failed;
  notice.text = fmt::format("not all of {} ranks joined within {}; never came: {}", job_.size,
                            seconds_text(patience_.value_or(job_.deadline)), missing_ranks());
  if (refused_ > 0) {
    notice.text += fmt::format("; {} connections were turned away, the last: {}", refused_, last_refusal_);
  }
  fail(std::move(notice));
}

void Hub::abort(const std::string& cause) {
  Notice notice;
  notice.kind = Notice::Kind::abort;
  notice.text = cause;
  fail(std::move(notice));
}

void Hub::fail(Notice notice) {
  if (failure_) return;
  failure_ = std::move(notice);
  deadline_.cancel();
  // Whoever caused it by a mistake in its start learns it too; who gave up by itself is on its way out.
  flood(*failure_);
}

void Hub::flood(const Notice& notice, int except) {
  const std::string bytes = encode(notice);
  for (int rank = 0; rank < job_.size; ++rank) {
    const Member& member = members_[static_cast<std::size_t>(rank)];
    if (member.connection && rank != except) write(*member.connection, bytes);
  }
}

bool Hub::finished() const {
  return std::all_of(members_.begin(), members_.end(), [](const Member& m) { return m.joined && m.left; });
}

/// "ranks 1, 3 to 7".
std::string Hub::missing_ranks() const {
  const auto missing = [&](int rank) { return rank < job_.size && !members_[static_cast<std::size_t>(rank)].joined; };
  std::string text;
  for (int rank = 0; rank < job_.size; ++rank) {
    if (!missing(rank)) continue;
    int last = rank;
    while (missing(last + 1)) ++last;
    text += fmt::format("{}{}", text.empty() ? "rank " : ", ", rank);
    if (last > rank) text += fmt::format(" to {}", last);
    rank = last;
  }
  return text;
}

}  // namespace rondo::detail
