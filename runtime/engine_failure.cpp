#include <algorithm>

#include <fmt/format.h>

#include "runtime/connector.hpp"
#include "runtime/control.hpp"
#include "runtime/engine.hpp"
#include "runtime/rank_list.hpp"

// What an engine makes of silence and of bad news: connections that end, the hub's notices, and the clock.

namespace rondo::detail {
namespace {

constexpr Duration kFailureTick = std::chrono::milliseconds(20);
// What a rank that said goodbye to the hub may still have in flight towards this one.
constexpr Duration kLeaverGrace = std::chrono::milliseconds(300);
constexpr auto kHasLeft = "has left: it said goodbye";

}  // namespace

template <typename Action>
void Engine::for_groups_with(int world_rank, Action action) {
  for (auto& [id, group] : groups_) {
    if (const int member = group->member(world_rank); member >= 0) action(*group, member);
  }
}

void Engine::peer_lost(Peer& peer, const std::string& cause) { lose(peer, cause, Suspect::How::lost); }

void Engine::peer_ended(Peer& peer, const std::string& cause) {
  if (left_.contains(peer.world_rank())) return peer_left(peer);
  lose(peer, cause, Suspect::How::ended);
}

// What it was the hub says before it says that the rank has left. Without a hub, who has seen a failure knows it.
void Engine::peer_left_after_error(Peer& peer) {
  if (hears_of_failures() ? left_.contains(peer.world_rank()) : failure_seen_) return peer_left(peer);
  lose(peer, "it left after an error", Suspect::How::ended);
}

void Engine::lose(Peer& peer, const std::string& cause, Suspect::How how) {
  if (peer.gone()) return;
  peer.detach(cause);
  if (hears_of_failures()) {
    suspects_.push_back({&peer, cause, clock_.now(), how});
  } else {
    peer_dead(peer.world_rank(), cause);
  }
}

bool Engine::suspected(const Peer& peer) const noexcept {
  return std::any_of(suspects_.begin(), suspects_.end(), [&](const Suspect& suspect) { return suspect.peer == &peer; });
}

void Engine::peer_dead(int world_rank, const std::string& cause) {
  failure_seen_ = true;
  peer(world_rank).detach(cause);
  if (!dead_.emplace(world_rank, cause).second) return;
  for_groups_with(world_rank, [&](Group& group, int member) {
    group.poison(
        Error(Errc::peer_failed, fmt::format("{} died: {}", group.name(member), cause), group.facts_of("", member)));
  });
}

void Engine::peer_left(Peer& peer) {
  if (peer.gone()) return;
  peer.detach(kHasLeft);
  tell_groups_left(peer);
}

void Engine::tell_groups_left(Peer& peer) {
  for_groups_with(peer.world_rank(), [&](Group& group, int member) { group.member_left(member, kHasLeft); });
}

void Engine::peer_unreachable(int world_rank, const std::string& cause) {
  Peer& unreached = peer(world_rank);
  if (unreached.gone()) return;
  const bool leaving =
      std::any_of(leavers_.begin(), leavers_.end(), [&](const Suspect& leaver) { return leaver.peer == &unreached; });
  if (leaving) return peer_left(unreached);
  unreached.detach("could not be reached: " + cause);
  if (!hears_of_failures()) return report_cut_off(world_rank, "could not reach", cause);
  // Most likely it has just ended, one way or the other: the hub is about to say.
  suspects_.push_back({&unreached, cause, clock_.now(), Suspect::How::unreachable});
}

void Engine::report_cut_off(int world_rank, const char* how, const std::string& cause) {
  for_groups_with(world_rank, [&](Group& group, int member) {
    group.report_failure(Error(Errc::peer_failed,
                               fmt::format("{} {} {}: {}", group.name(group.rank()), how, group.name(member), cause),
                               group.facts_of("", member)));
  });
}

// The hub's notices.

std::size_t Engine::poll_control() {
  std::size_t notices = 0;
  for (; auto notice = control_->poll(); ++notices) handle(*notice);
  return notices;
}

void Engine::handle(const Notice& notice) {
  switch (notice.kind) {
    case Notice::Kind::poisoned: {
      failure_seen_ = true;
      Group* const group = find_group(notice.communicator);
      if (!group) {
        if (!closed_groups_.contains(notice.communicator)) early_poison_.emplace(notice.communicator, notice);
        return;
      }
      return group->poison(Error(notice.code, notice.text,
                                 group->facts_of(notice.call.collective, static_cast<std::uint32_t>(notice.number))));
    }
    case Notice::Kind::dead:
      std::erase_if(suspects_, [&](const Suspect& suspect) { return suspect.peer->world_rank() == notice.rank; });
      return peer_dead(notice.rank, notice.text);
    case Notice::Kind::left: {
      Peer& leaver = peer(notice.rank);
      left_.insert(notice.rank);
      if (!leaver.connected() && !leaver.gone()) leavers_.push_back({&leaver, "", clock_.now()});
      const auto suspect = std::find_if(suspects_.begin(), suspects_.end(), [&](const Suspect& one) {
        return one.peer == &leaver && one.how != Suspect::How::lost;
      });
      if (suspect == suspects_.end()) return;
      suspects_.erase(suspect);
      leaver.detach(kHasLeft);
      return tell_groups_left(leaver);
    }
    case Notice::Kind::abort:
      failure_seen_ = true;
      for (auto& [id, group] : groups_) {
        group->poison(Error(notice.code, notice.text, group->facts_of("", group->member(notice.rank))));
      }
      return;
    case Notice::Kind::absent: {
      Group* const group = find_group(notice.communicator);
      Operation* const oldest = group ? group->oldest_operation() : nullptr;
      if (oldest && oldest->number() == notice.number) oldest->take_absence(notice.text);
      return;
    }
    case Notice::Kind::stalled:
      if (Group* const group = find_group(notice.communicator)) return group->take_stalled(notice);
      return tell_closed(notice);
    case Notice::Kind::circle:
      for (Blocked* blocked = blocked_.head(); blocked; blocked = blocked_.next(*blocked)) {
        if (blocked->number() == notice.number) return blocked->take_circle(notice.text);
      }
      return;
    case Notice::Kind::failed:
    case Notice::Kind::resumed:
    case Notice::Kind::waits:
    case Notice::Kind::goodbye: log_.debug("the hub sent {}, which only ranks send", to_string(notice.kind));
  }
}

/// Others wait for this rank in a collective of a communicator: if it was destroyed here before that, they wait in
/// vain.
void Engine::tell_closed(const Notice& stalled) {
  if (stalled.communicator == kWorldId && groups_.empty()) return;  // who leaves says goodbye
  const auto closed = closed_groups_.find(stalled.communicator);
  if (closed == closed_groups_.end() || closed->second.failed) return;
  const auto further = static_cast<std::int32_t>(static_cast<std::uint32_t>(stalled.number) - closed->second.done);
  const auto me = std::find_if(stalled.awaited.begin(), stalled.awaited.end(),
                               [&](const Notice::Awaited& awaited) { return awaited.rank == settings_.rank; });
  if (further <= 0 || me == stalled.awaited.end()) return;
  Notice cause = stalled;
  cause.kind = Notice::Kind::failed;
  cause.rank = settings_.rank;
  cause.code = Errc::peer_failed;
  cause.text = destroyed_text(member_name(me->member, me->rank));
  cause.awaited.clear();
  control_->tell(cause);
  closed->second.failed = true;
}

// The clock.

void Engine::tick_if_due() {
  const Time now = clock_.now();
  if (now - last_tick_ < kFailureTick) return;
  tick(now);
  poll(Look::everything);
}

std::size_t Engine::tick(Time now) {
  last_tick_ = now;
  // What the hub said while this process had no core was said in time.
  std::size_t moved = control_ ? poll_control() : 0;
  for (auto& [id, group] : groups_) moved += group->verdict_overdue(now) ? 1 : 0;
  for (std::size_t i = 0; i < suspects_.size();) {
    if (now - suspects_[i].since <= settings_.verdict_wait) {
      ++i;
      continue;
    }
    const Suspect suspect = suspects_[i];
    suspects_.erase(suspects_.begin() + static_cast<std::ptrdiff_t>(i));
    ++moved;
    // The hub does not say that it has died.
    const char* const how = suspect.how == Suspect::How::unreachable ? "could not reach" : "lost its connection to";
    report_cut_off(suspect.peer->world_rank(), how, suspect.cause);
  }
  std::erase_if(leavers_, [&](const Suspect& leaver) {
    if (now - leaver.since <= kLeaverGrace) return false;
    if (connector_ && connector_->may_reach(leaver.peer->world_rank(), leaver.since + kLeaverGrace)) return false;
    if (!leaver.peer->connected()) peer_left(*leaver.peer);
    ++moved;
    return true;
  });
  for (auto& [id, group] : groups_) {
    if (Operation* const oldest = group->oldest_operation(); oldest && !group->poisoned()) oldest->watch(now);
  }
  for (Blocked* blocked = blocked_.head(); blocked; blocked = blocked_.next(*blocked)) blocked->watch(now);
  return moved;
}

}  // namespace rondo::detail
