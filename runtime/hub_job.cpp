#include <algorithm>

#include <fmt/format.h>

#include <rondo/error.hpp>

#include "runtime/deadline_wait.hpp"
#include "runtime/hub.hpp"
#include "runtime/rank_list.hpp"
#include "transport/printable.hpp"

// What the hub knows of the job: who has joined, who left, who is dead, which communicators failed.

namespace rondo::detail {
namespace {

constexpr std::size_t kMaxStalls = 256;  // communicators on which one rank may be stuck at a time

}  // namespace

/// All had come, and some are gone: who comes now, perhaps of a world of another size, comes for the next job at this
/// place, and is to call again.
bool Hub::ends() const {
  return closing_ ||
         (phase_ == Phase::running && std::any_of(members_.begin(), members_.end(),
                                                  [](const Member& member) { return member.left || member.dead; }));
}

Verdict Hub::admission(const HandshakeTerms& peer) const {
  const Member& member = members_[static_cast<std::size_t>(peer.rank)];
  // Late for a job that failed already: it comes in to be told why.
  const bool taken = member.connection || (member.joined && !failure_);
  return taken ? Verdict::duplicate_rank : Verdict::accepted;
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

void Hub::take(int rank, const ControlMessage& message) {
  if (const auto* notice = std::get_if<Notice>(&message)) return take_notice(rank, *notice);
  const auto* join = std::get_if<Join>(&message);
  if (join == nullptr || members_[static_cast<std::size_t>(rank)].joined) {
    throw Error(Errc::protocol, "control message: got one that only the hub sends, or a second join");
  }
  take_join(rank, *join);
}

void Hub::take_notice(int rank, const Notice& notice) {
  switch (notice.kind) {
    case Notice::Kind::goodbye: return take_goodbye(rank);
    case Notice::Kind::stalled: return take_stalled(rank, notice);
    case Notice::Kind::resumed: return take_resumed(rank, notice.communicator);
    case Notice::Kind::waits: return take_waits(rank, notice);
    case Notice::Kind::failed: {
      Notice cause = notice;
      cause.rank = rank;
      if (cause.code == Errc::timed_out) cause.text += absence(rank, notice);
      return poison(std::move(cause));
    }
    case Notice::Kind::abort: {
      Notice cause = notice;
      cause.rank = rank;
      members_[static_cast<std::size_t>(rank)].left = true;
      if (poisoned_.empty()) began(rank, cause.text);
      return fail(std::move(cause));
    }
    case Notice::Kind::absent:
    case Notice::Kind::circle:
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

void Hub::take_stalled(int rank, Notice notice) {
  notice.rank = rank;
  auto& stalls = members_[static_cast<std::size_t>(rank)].stalls;
  if (stalls.size() >= kMaxStalls && !stalls.contains(notice.communicator)) stalls.erase(stalls.begin());
  const bool again = find_stall(rank, notice.communicator, notice.number) != nullptr;
  stalls[notice.communicator] = Stall{notice};
  if (!compare_calls(rank, notice)) return;
  pass_on(rank, notice);
  if (again) {
    Notice answer = notice;
    answer.kind = Notice::Kind::absent;
    answer.awaited.clear();
    answer.text = absence(rank, notice);
    advise(rank, answer);
  }
}

/// Who is awaited and does not wait here himself may have made another call, which needed nobody, and be anywhere: he
/// compares.
void Hub::pass_on(int rank, const Notice& notice) {
  for (const Notice::Awaited& awaited : notice.awaited) {
    if (awaited.rank < 0 || awaited.rank >= job_.size || awaited.rank == rank) continue;
    const Member& other = members_[static_cast<std::size_t>(awaited.rank)];
    if (other.stalls.contains(notice.communicator)) continue;
    Notice told = notice;
    told.awaited = {awaited};
    advise(awaited.rank, told);
  }
}

/// What was given up is remembered: whoever misses the rank elsewhere may hit its own deadline a moment later.
void Hub::take_resumed(int rank, std::uint64_t communicator) {
  auto& stalls = members_[static_cast<std::size_t>(rank)].stalls;
  const auto found = stalls.find(communicator);
  if (found == stalls.end()) return;
  if (poisoned_.contains(communicator)) {
    found->second.given_up = true;
    return;
  }
  stalls.erase(found);
  ask_who_resumed(rank, communicator);
}

/// Nobody told it of others that waited for it while it waited itself; now it may have destroyed the communicator.
void Hub::ask_who_resumed(int rank, std::uint64_t communicator) {
  for (int other = 0; other < job_.size; ++other) {
    const auto& stalls = members_[static_cast<std::size_t>(other)].stalls;
    const auto found = stalls.find(communicator);
    if (found == stalls.end()) continue;
    const Notice& said = found->second.said;
    const bool awaits =
        std::any_of(said.awaited.begin(), said.awaited.end(), [&](const auto& one) { return one.rank == rank; });
    if (awaits) advise(rank, said);
  }
}

bool Hub::same_call(const Stall& one, const Stall& other, std::uint64_t number) {
  const Call* const first = one.call_at(number);
  const Call* const second = other.call_at(number);
  return first && second && *first == *second;
}

/// False: somebody's call with the same number is another one, and the communicator has failed.
bool Hub::compare_calls(int rank, const Notice& notice) {
  const Stall& mine = members_[static_cast<std::size_t>(rank)].stalls.at(notice.communicator);
  for (int other = 0; other < job_.size; ++other) {
    const auto& stalls = members_[static_cast<std::size_t>(other)].stalls;
    const auto found = stalls.find(notice.communicator);
    if (found == stalls.end() || other == rank) continue;
    // Of two that are stuck in different places, one is done with what the other waits in. Two in the same call may not
    // have been in the same before.
    std::uint64_t number = std::min(mine.said.number, found->second.said.number);
    while (same_call(mine, found->second, number)) --number;
    const Call* const my_call = mine.call_at(number);
    const Call* const their_call = found->second.call_at(number);
    if (!my_call || !their_call) continue;
    Notice cause = notice;
    cause.rank = rank;
    cause.number = number;
    cause.call = mine.said.number == number ? *my_call : *their_call;
    cause.code = Errc::collective_mismatch;
    const bool in_order = other < rank;
    const char* const where = notice.communicator == kWorldId ? "" : " of the world";
    cause.text = fmt::format("the ranks' calls differ: rank {}{} called {}, rank {}{} called {}",
                             in_order ? other : rank, where, to_string(in_order ? *their_call : *my_call),
                             in_order ? rank : other, where, to_string(in_order ? *my_call : *their_call));
    poison(std::move(cause));
    return false;
  }
  return true;
}

const Hub::Stall* Hub::find_stall(int rank, std::uint64_t communicator, std::uint64_t number) const {
  const auto& stalls = members_[static_cast<std::size_t>(rank)].stalls;
  const auto found = stalls.find(communicator);
  return found != stalls.end() && found->second.said.number == number ? &found->second : nullptr;
}

/// "; rank 3 has not come to it": whom anybody waits for in this call and who does not wait in it himself. Whom the
/// asking rank waits for may be as innocent as itself, and it may give up before it counted as one that waits.
std::string Hub::absence(int asking, const Notice& notice) const {
  std::map<int, int> absent;  // member -> rank
  const auto add = [&](const std::vector<Notice::Awaited>& awaited) {
    for (const auto& [member, rank] : awaited) {
      if (rank < 0 || rank >= job_.size || rank == asking) continue;
      if (!find_stall(rank, notice.communicator, notice.number)) absent[member] = rank;
    }
  };
  add(notice.awaited);
  for (int rank = 0; rank < job_.size; ++rank) {
    if (const Stall* const stall = find_stall(rank, notice.communicator, notice.number)) add(stall->said.awaited);
  }
  std::vector<int> members;
  std::vector<int> ranks;
  std::string elsewhere;
  for (const auto& [member, rank] : absent) {
    const std::string name = member_name(member, rank);
    members.push_back(member);
    ranks.push_back(rank);
    const auto& stalls = members_[static_cast<std::size_t>(rank)].stalls;
    const auto waits = std::find_if(stalls.begin(), stalls.end(), [](const auto& at) { return !at.second.given_up; });
    const std::string call = waits == stalls.end() ? call_of(rank) : "";
    if (!call.empty()) elsewhere += fmt::format("; {} waits in {}", name, call);
    if (!call.empty() || stalls.empty()) continue;
    const auto here = stalls.find(notice.communicator);
    const bool done = here != stalls.end() && here->second.said.number > notice.number;
    const auto& [communicator, stall] = done ? *here : waits != stalls.end() ? *waits : *stalls.begin();
    elsewhere += fmt::format("; {} {}{} {} #{}{}", name, done ? "is done with it and " : "",
                             stall.given_up ? "gave up" : "waits in", to_string(stall.said.call), stall.said.number,
                             communicator == notice.communicator ? "" : " of another communicator");
    if (!done) continue;
    members.pop_back();
    ranks.pop_back();
  }
  if (members.empty()) return elsewhere;
  return fmt::format("; {} {} not come to it{}", member_list(members, ranks), members.size() > 1 ? "have" : "has",
                     elsewhere);
}

void Hub::take_goodbye(int rank) {
  Member& member = members_[static_cast<std::size_t>(rank)];
  if (phase_ == Phase::gathering) return dead(rank, "it left");
  member.left = true;
  Notice notice;
  notice.kind = Notice::Kind::left;
  notice.rank = rank;
  // Itself, too, on an inherited connection: another process that finds it knows then that somebody has been here.
  flood(notice, member.adopted ? -1 : rank);
}

void Hub::began(int rank, const std::string& text) {
  if (!origin_) origin_ = {rank, text};
}

/// The first cause wins: what other ranks see of the same failure later is a consequence.
void Hub::poison(Notice notice) {
  if (!poisoned_.insert(notice.communicator).second) return;
  notice.kind = Notice::Kind::poisoned;
  if (notice.code != Errc::peer_failed) began(notice.rank, notice.text);
  flood(notice);
}

void Hub::lost(int rank, const std::string& cause) {
  Member& member = members_[static_cast<std::size_t>(rank)];
  member.connection.reset();
  if (member.left || member.dead || closing_) return;
  began(rank, "");
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
  began(rank, "");
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

std::string Hub::missing_ranks() const {
  std::vector<int> missing;
  for (int rank = 0; rank < job_.size; ++rank) {
    if (!members_[static_cast<std::size_t>(rank)].joined) missing.push_back(rank);
  }
  return rank_list(missing);
}

}  // namespace rondo::detail
