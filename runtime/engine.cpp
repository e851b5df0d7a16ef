#include "runtime/engine.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "transport/resting.hpp"

namespace rondo::detail {
namespace {

// Links that nobody awaits anything from are looked at every so many passes.
constexpr unsigned kPassesPerLook = 64;
// What an idle rank sleeps at the most, and while a clock runs against somebody.
constexpr Duration kLongSleep = std::chrono::milliseconds(500);
constexpr Duration kShortSleep = std::chrono::milliseconds(20);
// What a rank that said goodbye to the hub may still have in flight towards this one.
constexpr Duration kLeaverGrace = std::chrono::milliseconds(300);
constexpr Duration kLeaveTimeout = std::chrono::seconds(1);
constexpr auto kHasLeft = "has left: it said goodbye";
// Memory for unexpected messages that is kept for the next one.
constexpr std::size_t kKeptMessages = 256;
constexpr std::size_t kKeptBytes = std::size_t{64} << 10;

}  // namespace

Engine::Engine(const Settings& settings, const Clock& clock, Waiter& waiter, Log log)
    : settings_(settings),
      clock_(clock),
      waiter_(waiter),
      log_(std::move(log)),
      peers_(static_cast<std::size_t>(settings.size)),
      progress_(*this, waiter, clock, settings.idle, settings.helper_thread) {
  ready_.reserve(64);
}

Engine::~Engine() {
  for (Peer* peer : active_) {
    if (peer->link()->descriptor() >= 0) waiter_.forget(peer->link()->descriptor());
  }
  groups_.clear();
}

// Descriptors are watched from the start: a message must not pay for that.

void Engine::use(Connector& connector) {
  connector_ = &connector;
  connector_->watch(waiter_);
}

void Engine::use(Control& control) {
  control_ = &control;
  watched_control_ = control.descriptor();
  if (watched_control_ >= 0) waiter_.watch(watched_control_, false);
}

void Engine::connected(Peer& peer) {
  active_.push_back(&peer);
  if (peer.link()->descriptor() >= 0) waiter_.watch(peer.link()->descriptor(), false);
}

// Communicators.

Group& Engine::make_group(std::uint64_t id, std::vector<int> members) {
  auto& group = *groups_.emplace(id, std::make_unique<Group>(*this, id, std::move(members))).first->second;
  if (auto early = early_.extract(id)) {
    for (auto& message : early.mapped()) group.adopt(std::move(message));
  }
  if (const auto poison = early_poison_.extract(id)) handle(poison.mapped());
  for (const auto& [rank, cause] : dead_) {
    if (const int member = group.member(rank); member >= 0) {
      group.poison(Error(Errc::peer_failed, fmt::format("rank {} died: {}", member, cause),
                         {group.rank(), member, "", 0, 0, 0, {}}));
    }
  }
  return group;
}

void Engine::close_group(Group& group) {
  closed_groups_.insert(group.id());
  auto closed = groups_.extract(group.id());
  if (group.idle()) return;
  // Handles of unfinished operations still refer to it.
  group.poison(Error(Errc::not_initialized, "the communicator was destroyed before its operations had finished",
                     {group.rank(), -1, "", 0, 0, 0, {}}));
  run_ready();
  abandoned_groups_.push_back(std::move(closed.mapped()));
}

Group* Engine::find_group(std::uint64_t id) {
  const auto found = groups_.find(id);
  return found == groups_.end() ? nullptr : found->second.get();
}

Unexpected* Engine::keep_early(const FrameHeader& header, int world_rank) {
  if (closed_groups_.contains(header.communicator)) return nullptr;
  auto& kept = early_[header.communicator].emplace_back(take_unexpected_memory());
  kept->header = header;
  kept->source = world_rank;
  return kept.get();
}

std::unique_ptr<Unexpected> Engine::take_unexpected_memory() {
  if (unexpected_memory_.empty()) return std::make_unique<Unexpected>();
  auto memory = std::move(unexpected_memory_.back());
  unexpected_memory_.pop_back();
  return memory;
}

void Engine::give_unexpected_memory(std::unique_ptr<Unexpected> memory) {
  if (unexpected_memory_.size() >= kKeptMessages || memory->payload.capacity() > kKeptBytes) return;
  memory->payload.clear();
  memory->complete = false;
  memory->claimed_by = nullptr;
  unexpected_memory_.push_back(std::move(memory));
}

// Peers.

Peer& Engine::peer(int world_rank) {
  auto& peer = peers_[static_cast<std::size_t>(world_rank)];
  if (!peer) peer = std::make_unique<Peer>(*this, world_rank);
  return *peer;
}

void Engine::connect(Peer& peer) {
  if (connector_) connector_->connect(peer.world_rank());
}

template <typename Action>
void Engine::for_groups_with(int world_rank, Action action) {
  for (auto& [id, group] : groups_) {
    if (const int member = group->member(world_rank); member >= 0) action(*group, member);
  }
}

void Engine::peer_lost(Peer& peer, const std::string& cause) {
  if (peer.gone()) return;
  peer.detach(cause);
  if (control_ && control_->descriptor() >= 0) {
    suspects_.push_back({&peer, cause, clock_.now(), false});
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
    group.poison(Error(Errc::peer_failed, fmt::format("rank {} died: {}", member, cause),
                       {group.rank(), member, "", 0, 0, 0, {}}));
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
  if (!control_ || control_->descriptor() < 0) return report_unreachable(world_rank, cause);
  // Most likely it has just ended, one way or the other: the hub is about to say.
  suspects_.push_back({&unreached, cause, clock_.now(), true});
}

void Engine::report_unreachable(int world_rank, const std::string& cause) {
  for_groups_with(world_rank, [&](Group& group, int member) {
    group.report_failure(Error(Errc::peer_failed,
                               fmt::format("rank {} could not reach rank {}: {}", group.rank(), member, cause),
                               {group.rank(), member, "", 0, 0, 0, {}}));
  });
}

void Engine::wake(int world_rank) {
  Peer& sleeper = peer(world_rank);
  if (sleeper.link()) {
    sleeper.link()->ring();
  } else if (!sleeper.gone()) {
    connect(sleeper);  // which wakes it as well as a bell does
  }
}

Descriptor Engine::take_passed(std::uint64_t number) {
  auto found = passed_.extract(number);
  return found ? std::move(found.mapped()) : Descriptor();
}

// Running.

void Engine::run_ready() {
  while (!ready_.empty()) {
    running_.swap(ready_);
    for (const auto coroutine : running_) coroutine.resume();
    running_.clear();
  }
}

std::byte* Engine::take_scratch(std::size_t bytes) {
  for (auto& [size, memory] : scratch_) {
    if (size == bytes && memory) return memory.release();
  }
  return new std::byte[bytes];
}

void Engine::give_scratch(std::byte* memory, std::size_t bytes) noexcept {
  std::unique_ptr<std::byte[]> owned(memory);
  for (auto& [size, kept] : scratch_) {
    if (kept) continue;
    size = bytes;
    kept = std::move(owned);
    return;
  }
  constexpr std::size_t kKeptScratch = 16;
  if (scratch_.size() < kKeptScratch) {
    scratch_.emplace_back(bytes, std::move(owned));
  } else {
    scratch_.front() = {bytes, std::move(owned)};
  }
}

std::size_t Engine::poll(bool everything) {
  const bool look = everything || ++passes_ % kPassesPerLook == 0;
  std::size_t moved = 0;
  if (connector_ && (everything || connector_->busy())) moved += connector_->poll();
  // Bells first: what they were rung for is looked at after them.
  for (std::size_t i = 0; everything && i < active_.size(); ++i) moved += active_[i]->link()->check(*active_[i]);
  for (Condition* condition = conditions_.head(); condition;) {
    Condition* const following = conditions_.next(*condition);
    moved += condition->look() ? 1 : 0;
    condition = following;
  }
  bool lost = false;
  for (std::size_t i = 0; i < active_.size(); ++i) {
    Peer& peer = *active_[i];
    if (!look && !peer.awaited() && expected_from_any_ == 0) continue;
    moved += peer.poll();
    lost |= peer.gone();
  }
  if (lost) {
    std::erase_if(active_, [&](Peer* peer) {
      if (!peer->gone()) return false;
      if (peer->link()->descriptor() >= 0) waiter_.forget(peer->link()->descriptor());
      return true;
    });
  }
  if (control_ && everything) poll_control();
  if (!ready_.empty()) {
    run_ready();
    ++moved;
  }
  return moved;
}

void Engine::poll_control() {
  while (auto notice = control_->poll()) handle(*notice);
}

void Engine::handle(const Notice& notice) {
  switch (notice.kind) {
    case Notice::Kind::poisoned: {
      failure_seen_ = true;
      Group* const group = find_group(notice.communicator);
      if (!group) {
        early_poison_.emplace(notice.communicator, notice);
        return;
      }
      return group->poison(Error(notice.code, notice.text, {group->rank(), -1, "", 0, 0, 0, {}}));
    }
    case Notice::Kind::dead:
      std::erase_if(suspects_, [&](const Suspect& suspect) { return suspect.peer->world_rank() == notice.rank; });
      return peer_dead(notice.rank, notice.text);
    case Notice::Kind::left: {
      Peer& leaver = peer(notice.rank);
      if (!leaver.connected() && !leaver.gone()) leavers_.push_back({&leaver, "", clock_.now(), false});
      const auto suspect = std::find_if(suspects_.begin(), suspects_.end(),
                                        [&](const Suspect& one) { return one.peer == &leaver && one.unreachable; });
      if (suspect == suspects_.end()) return;
      suspects_.erase(suspect);
      return tell_groups_left(leaver);
    }
    case Notice::Kind::abort:
      failure_seen_ = true;
      for (auto& [id, group] : groups_) {
        group->poison(Error(notice.code, notice.text, {group->rank(), group->member(notice.rank), "", 0, 0, 0, {}}));
      }
      return;
    case Notice::Kind::failed:
    case Notice::Kind::stalled:
    case Notice::Kind::goodbye: log_.debug("the hub sent {}, which only ranks send", to_string(notice.kind));
  }
}

void Engine::tick_if_due() {
  const Time now = clock_.now();
  if (now - last_tick_ < kShortSleep) return;
  tick(now);
  poll(true);
}

void Engine::tick(Time now) {
  last_tick_ = now;
  for (auto& [id, group] : groups_) group->verdict_overdue(now);
  for (std::size_t i = 0; i < suspects_.size();) {
    if (now - suspects_[i].since <= settings_.verdict_wait) {
      ++i;
      continue;
    }
    const Suspect suspect = suspects_[i];
    suspects_.erase(suspects_.begin() + static_cast<std::ptrdiff_t>(i));
    if (suspect.unreachable) {
      report_unreachable(suspect.peer->world_rank(), suspect.cause);
    } else {
      peer_dead(suspect.peer->world_rank(), suspect.cause);
    }
  }
  std::erase_if(leavers_, [&](const Suspect& leaver) {
    if (now - leaver.since <= kLeaverGrace || (connector_ && connector_->busy())) return false;
    if (!leaver.peer->connected()) peer_left(*leaver.peer);
    return true;
  });
  watch_operations(now);
}

void Engine::watch_operations(Time now) {
  for (auto& [id, group] : groups_) {
    Operation* const operation = group->oldest_operation();
    if (!operation || group->poisoned()) continue;
    const Duration age = now - operation->started();
    if (age >= settings_.stall_after && !operation->stall_told && control_) {
      operation->stall_told = true;
      Notice notice;
      notice.kind = Notice::Kind::stalled;
      notice.rank = settings_.rank;
      notice.communicator = id;
      notice.number = operation->number();
      notice.call = operation->call();
      control_->tell(notice);
    }
    if (age >= settings_.notice_after * (1LL << std::min(operation->notices, 30))) {
      ++operation->notices;
      log_.warn("{}", operation->describe(now));
    }
  }
}

Duration Engine::prepare_to_sleep() {
  if (rest(true)) {
    Resting::order();
    if (poll(true) > 0) return Duration::zero();
  }
  for (Peer* peer : active_) {
    if (peer->link()->descriptor() >= 0) waiter_.watch(peer->link()->descriptor(), peer->link()->wants_write());
  }
  if (connector_) connector_->watch(waiter_);
  const int control = control_ ? control_->descriptor() : -1;
  if (control != watched_control_) {
    if (watched_control_ >= 0) waiter_.forget(watched_control_);
    watched_control_ = control;
  }
  if (control >= 0) waiter_.watch(control, false);
  const bool verdict_due =
      std::any_of(groups_.begin(), groups_.end(), [](const auto& entry) { return entry.second->awaits_verdict(); });
  return verdict_due || !suspects_.empty() || !leavers_.empty() ? kShortSleep : kLongSleep;
}

bool Engine::rest(bool resting) {
  bool shared = false;
  for (Peer* peer : active_) shared |= peer->link()->rest(resting);
  for (auto& [id, group] : groups_) shared |= group->commons().rest(resting);
  return shared;
}

void Engine::leave(bool by_exception) {
  const auto say_goodbye = [&] {
    for (Peer* peer : active_) peer->leave(by_exception || failure_seen_);
  };
  say_goodbye();
  const Time until = clock_.now() + kLeaveTimeout;
  const auto unsent = [](const Peer* peer) {
    return !peer->gone() && !(peer->link()->flushed() && peer->link()->drained());
  };
  while (clock_.now() < until &&
         ((connector_ && connector_->busy()) || std::any_of(active_.begin(), active_.end(), unsent))) {
    const std::size_t moved = poll(true);
    say_goodbye();  // on links that others have made meanwhile, too
    if (moved > 0) continue;
    if (prepare_to_sleep() > Duration::zero()) waiter_.wait(std::chrono::milliseconds(1));
    awake();
  }
  for (Peer* peer : active_) peer->link()->shut_down();
}

}  // namespace rondo::detail
