#include "runtime/engine.hpp"

#include <algorithm>
#include <bit>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "runtime/connector.hpp"
#include "runtime/control.hpp"
#include "transport/resting.hpp"

namespace rondo::detail {
namespace {

// Links that nobody awaits anything from are looked at every so many passes.
constexpr unsigned kPassesPerLook = 64;
// What an idle rank sleeps at the most, and while a clock runs against somebody.
constexpr Duration kLongSleep = std::chrono::milliseconds(500);
constexpr Duration kShortSleep = std::chrono::milliseconds(20);
// While a device is at work, which rings no bell.
constexpr Duration kDeviceSleep = std::chrono::microseconds(20);
constexpr Duration kLeaveTimeout = std::chrono::seconds(1);
// Memory for unexpected messages that is kept for the next ones, at the most.
constexpr std::size_t kKeptBytes = std::size_t{16} << 20;

std::size_t kept_bytes(const Unexpected& memory) { return sizeof memory + memory.payload.capacity(); }

}  // namespace

Engine::Engine(const Settings& settings, const Clock& clock, Waiter& waiter, Log log)
    : settings_(settings),
      clock_(clock),
      waiter_(waiter),
      log_(std::move(log)),
      peers_(static_cast<std::size_t>(settings.size)),
      progress_(*this, waiter, clock, settings.helper_thread) {
  ready_.reserve(64);
  scratch_.reserve(kMostScratch);
}

Engine::~Engine() {
  later_.clear();
  groups_.clear();
  abandoned_groups_.clear();
}

void Engine::use(Connector& connector) { connector_ = &connector; }

void Engine::use(Control& control) { control_ = &control; }

bool Engine::hears_of_failures() const noexcept { return control_ && control_->descriptor() >= 0; }

void Engine::connected(Peer& peer) { active_.push_back(&peer); }

// Communicators.

Group& Engine::make_group(std::uint64_t id, std::vector<int> members) {
  auto& group = *groups_.emplace(id, std::make_unique<Group>(*this, id, std::move(members))).first->second;
  if (auto early = early_.extract(id)) {
    for (auto& message : early.mapped()) group.adopt(std::move(message));
  }
  if (const auto poison = early_poison_.extract(id)) handle(poison.mapped());
  for (const auto& [rank, cause] : dead_) {
    if (const int member = group.member(rank); member >= 0) {
      group.poison(
          Error(Errc::peer_failed, fmt::format("{} died: {}", group.name(member), cause), group.facts_of("", member)));
    }
  }
  return group;
}

void Engine::close_group(Group& group) {
  const auto is_idle = [](const auto& abandoned) { return abandoned->idle(); };
  std::erase_if(abandoned_groups_, is_idle);
  closed_groups_.emplace(group.id(), Closed{group.failed(), group.done()});
  last_found_ = nullptr;
  auto closed = groups_.extract(group.id());
  // Then the others hear of that, a better cause than any answer to what they offer.
  ends_by_exception_ = groups_.empty() && std::uncaught_exceptions() > 0;
  group.answer_offers();
  // An exception that ends this rank is a better cause; one that is caught leaves it to who asks again.
  if (group.asked() && std::uncaught_exceptions() == 0) tell_closed(*group.asked());
  if (group.idle()) return;
  group.poison(Error(Errc::not_initialized, "the communicator was destroyed before its operations had finished",
                     group.facts_of("")));
  run_ready();
  // What looks at shared memory, or waits for the hub's word, ends later.
  if (!group.idle()) abandoned_groups_.push_back(std::move(closed.mapped()));
}

Group* Engine::find_group(std::uint64_t id) {
  if (last_found_ && last_found_->id() == id) return last_found_;
  const auto found = groups_.find(id);
  if (found == groups_.end()) return nullptr;
  return last_found_ = found->second.get();
}

bool Engine::failed(std::uint64_t communicator) {
  if (const Group* const group = find_group(communicator)) return group->failed();
  const auto closed = closed_groups_.find(communicator);
  return closed != closed_groups_.end() && closed->second.failed;
}

Unexpected* Engine::keep_early(const FrameHeader& header, int world_rank) {
  if (closed_groups_.contains(header.communicator)) return nullptr;
  auto& kept = early_[header.communicator].emplace_back(take_unexpected_memory());
  kept->header = header;
  kept->source = world_rank;
  return kept.get();
}

void Engine::drop_unexpected(Unexpected& message) {
  if (Group* const group = find_group(message.header.communicator)) return group->drop_unexpected(message);
  std::erase_if(early_[message.header.communicator], [&](const auto& kept) { return kept.get() == &message; });
}

std::unique_ptr<Unexpected> Engine::take_unexpected_memory() {
  if (unexpected_memory_.empty()) return std::make_unique<Unexpected>();
  auto memory = std::move(unexpected_memory_.back());
  unexpected_memory_.pop_back();
  unexpected_bytes_ -= kept_bytes(*memory);
  return memory;
}

void Engine::give_unexpected_memory(std::unique_ptr<Unexpected> memory) {
  const std::size_t bytes = kept_bytes(*memory);
  if (bytes > kKeptBytes - unexpected_bytes_) return;
  unexpected_bytes_ += bytes;
  memory->complete = false;
  memory->claimed_by = nullptr;
  unexpected_memory_.push_back(std::move(memory));
}

// Peers.

Peer& Engine::make_peer(int world_rank) {
  auto& peer = peers_[static_cast<std::size_t>(world_rank)];
  peer = std::make_unique<Peer>(*this, world_rank);
  return *peer;
}

bool Engine::on_other_core(int world_rank) const {
  const auto& places = settings_.core_places;
  if (places.empty() || places[static_cast<std::size_t>(world_rank)] < 0) return false;
  const int ranks = 1 + *std::max_element(places.begin(), places.end());
  const std::size_t cores = settings_.cores.size();
  if (static_cast<std::size_t>(ranks) <= cores) return false;  // nobody has been told where to be
  const auto core_of = [&](int rank) { return core_in_world(places[static_cast<std::size_t>(rank)], ranks, cores); };
  return core_of(world_rank) != core_of(settings_.rank);
}

void Engine::connect(Peer& peer) {
  if (connector_) connector_->connect(peer.world_rank());
}

void Engine::wake(int world_rank) {
  Peer& sleeper = peer(world_rank);
  if (!sleeper.link() && !sleeper.gone()) {
    // To be called wakes it as well as a bell does, and so does every answer that it gets while they connect: who does
    // all that it does on the spot looks at nothing but here.
    connect(sleeper);
    if (connector_) connector_->poll();
  }
  if (sleeper.link()) sleeper.link()->ring();
}

std::optional<Descriptor> Engine::take_passed(std::uint64_t number) {
  auto found = passed_.extract(number);
  if (!found) return std::nullopt;
  return std::move(found.mapped());
}

// Running.

void Engine::run_ready() {
  while (!ready_.empty()) {
    running_.swap(ready_);
    for (const auto coroutine : running_) coroutine.resume();
    running_.clear();
  }
}

void Engine::forget(std::coroutine_handle<> coroutine) noexcept {
  const std::coroutine_handle<> nothing = std::noop_coroutine();
  for (auto* const list : {&ready_, &running_}) std::replace(list->begin(), list->end(), coroutine, nothing);
}

// Of a few sizes, so that calls of ever other lengths find what earlier ones left. What is not written to takes no
// memory.
std::byte* Engine::take_scratch(std::size_t bytes) {
  const std::size_t size = std::bit_ceil(bytes);
  // The one that was used last: it may be in a cache.
  const auto kept =
      std::find_if(scratch_.rbegin(), scratch_.rend(), [&](const auto& one) { return one.first == size; });
  if (kept == scratch_.rend()) return new std::byte[size];
  std::byte* const memory = kept->second.release();
  scratch_.erase(std::next(kept).base());
  scratch_bytes_ -= size;
  return memory;
}

void Engine::give_scratch(std::byte* memory, std::size_t bytes) noexcept {
  if (!memory) return;
  const std::size_t size = std::bit_ceil(bytes);
  while (!scratch_.empty() && (scratch_.size() == kMostScratch || scratch_bytes_ + size > kMostScratchBytes)) {
    scratch_bytes_ -= scratch_.front().first;
    scratch_.erase(scratch_.begin());
  }
  scratch_.emplace_back(size, memory);
  scratch_bytes_ += size;
}

std::size_t Engine::poll(Look look, WakeList* slept_for) {
  const bool everything = look == Look::everything;
  const bool all_links = look != Look::awaited || ++passes_ % kPassesPerLook == 0;
  std::size_t moved = 0;
  if (connector_ && (everything || connector_->busy())) moved += connector_->poll();
  // Bells first: what they were rung for is looked at after them.
  for (std::size_t i = 0; everything && i < active_.size(); ++i) {
    Link& link = *active_[i]->link();
    if (!slept_for || !slept_for->quiet(link.descriptor())) moved += link.check(*active_[i]);
  }
  for (Condition* condition = conditions_.head(); condition;) {
    Condition* const following = conditions_.next(*condition);
    moved += condition->look() ? 1 : 0;
    condition = following;
  }
  bool lost = false;
  polled_ = {.system = 0, .answers = true};
  for (std::size_t i = 0; i < active_.size(); ++i) {
    Peer& peer = *active_[i];
    const bool awaited = awaits(peer);
    if (!all_links && !awaited) continue;
    polled_.system += awaited && peer.link()->polls_system() ? 1 : 0;
    polled_.answers &= !awaited || (peer.asked() && peer.on_other_core());
    moved += peer.poll();
    if (!peer.gone()) continue;
    peer.link()->settle();  // who has said goodbye waits until that is acknowledged
    lost = true;
  }
  if (lost) std::erase_if(active_, [](const Peer* peer) { return peer->gone(); });
  if (device_.opened()) {
    moved += device_.poll();
    device_messages_.poll();
    device_peers_.poll();
  }
  if (!later_.empty()) finish_what_is_over();
  if (control_ && everything) moved += poll_control();
  if (!ready_.empty()) {
    run_ready();
    ++moved;
  }
  return moved;
}

bool Engine::awaits_answer() const noexcept {
  return std::any_of(active_.begin(), active_.end(), [this](const Peer* peer) {
    return peer->asked() && awaits(*peer) && peer->link()->polls_system();
  });
}

std::uint64_t Engine::finish_later(std::unique_ptr<Waitable> waitable) {
  waitable->leave();
  later_[++last_later_] = std::move(waitable);
  return last_later_;
}

std::unique_ptr<Waitable> Engine::take_back(std::uint64_t number) {
  const auto found = later_.extract(number);
  return found ? std::move(found.mapped()) : nullptr;
}

std::optional<Time> Engine::last_deadline() const noexcept {
  std::optional<Time> last = Time::min();
  for (const auto& [number, waitable] : later_)
    last = waitable->deadline && last ? std::max(waitable->deadline, last) : std::nullopt;
  return last;
}

void Engine::finish_what_is_over() {
  std::erase_if(later_, [&](const auto& entry) {
    const std::unique_ptr<Waitable>& waitable = entry.second;
    if (!waitable->finished()) return false;
    progress_.attend(*waitable);
    try {
      if (waitable->error()) std::rethrow_exception(waitable->error());
    } catch (const std::exception& error) {
      log_.warn("what a stream waits for failed: {}", error.what());
    }
    return true;
  });
}

Duration Engine::prepare_to_sleep(WakeList& wakes) {
  wakes.clear();
  if (rest(true)) {
    Resting::order();
    // What only the system knows ends the sleep.
    if (poll(Look::links) > 0) return Duration::zero();
  }
  for (const Peer* peer : active_) wakes.add(peer->link()->descriptor(), peer->link()->wants_write());
  if (connector_) connector_->watch(wakes);
  if (control_) wakes.add(control_->descriptor(), false);
  if (device_.busy()) return kDeviceSleep;
  const bool verdict_due =
      std::any_of(groups_.begin(), groups_.end(), [](const auto& entry) { return entry.second->awaits_verdict(); });
  return verdict_due || device_peers_.closes_later() || !suspects_.empty() || !leavers_.empty() ? kShortSleep
                                                                                                : kLongSleep;
}

void Engine::settle() noexcept {
  for (Peer* peer : active_) peer->link()->settle();
}

bool Engine::rest(bool resting) {
  bool shared = false;
  for (Peer* peer : active_) shared |= peer->link()->rest(resting);
  for (auto& [id, group] : groups_) shared |= group->rest(resting);
  return shared;
}

void Engine::leave(bool by_exception) {
  // To close what others have waits for such a stream, perhaps: without hearing of anybody's death.
  linger(by_exception ? kLeaveTimeout : kPatience, [this] { return failure_seen_ || !device_.streams_wait(); });
  device_peers_.leave();
  // Who leaves by an exception has the others told by its end.
  linger(by_exception ? kLeaveTimeout : patience(kLeaveTimeout), [this] { return device_peers_.left(); });
  const auto unsent = [](const Peer* peer) {
    return !peer->gone() && !(peer->link()->flushed() && peer->link()->drained());
  };
  linger(kLeaveTimeout, [&] {
    // On links that others have made meanwhile, too.
    for (Peer* peer : active_) peer->leave(by_exception || failure_seen_);
    return !(connector_ && connector_->busy()) && std::none_of(active_.begin(), active_.end(), unsent);
  });
  for (Peer* peer : active_) peer->link()->shut_down();
}

void Engine::linger(Duration at_most, const std::function<bool()>& done) {
  WakeList wakes;
  for (const Time until = clock_.now() + at_most; !done() && clock_.now() < until;) {
    if (poll(Look::everything) > 0) continue;
    if (prepare_to_sleep(wakes) > Duration::zero()) waiter_.wait(wakes, std::chrono::milliseconds(1));
    awake();
  }
}

}  // namespace rondo::detail
