#include "collectives/device_work.hpp"

#include <algorithm>
#include <utility>

#include <rondo/error.hpp>

#include "runtime/condition.hpp"
#include "runtime/engine.hpp"

namespace rondo::detail {
namespace {

/// Of a move by single elements that rondo's kernel makes; with more a driver's own, which does better, is worth its
/// call.
constexpr std::size_t kMovedUnlike = std::size_t{4} << 20;

struct Nobody {
  bool operator()(int) const noexcept { return false; }
};

/// `awaits(member)`: he has not done his part.
template <typename Awaits = Nobody>
struct IsOver {
  const bool& over;
  Awaits awaits{};
  bool operator()() const noexcept { return over; }
};

}  // namespace

std::function<void(const std::exception_ptr&)> DeviceEvent::ended(const std::shared_ptr<DeviceEvent>& event,
                                                                  std::shared_ptr<void> held) {
  return [event, held = std::move(held)](const std::exception_ptr& error) {
    event->failure = error;
    event->over = true;
  };
}

Task over(Operation& operation, std::shared_ptr<DeviceEvent> event) {
  Until done(operation, IsOver<>{event->over}, 1);
  co_await done;
  if (event->failure) std::rethrow_exception(event->failure);
}

DeviceTurn::DeviceTurn(Group& group, const DeviceMemory& memory, const char* operation) {
  RankDevice::Opened* const device = group.engine().device().opened();
  if (device == nullptr) return;
  try {
    queue = device->queue_of(group.id());
  } catch (const cuda::CudaError& error) {
    throw error_of(error, operation);
  }
  if (const auto& given = memory.given()) own->given = {given->address, given->address + given->bytes};
  if (const auto& got = memory.got()) own->got = {got->address, got->address + got->bytes};
  own->before = std::exchange(queue->last, own).lock();
}

DeviceTurn::~DeviceTurn() {
  pass();
  end();
}

Task DeviceTurn::come(Operation& operation) const {
  for (auto earlier = own->before; earlier; earlier = earlier->before) {
    if (!own->on_host) {
      Until queued(operation, IsOver<>{earlier->all_queued}, 1);
      co_await queued;
    }
    if (!(own->on_host || earlier->on_host) || !own->depends_on(*earlier)) continue;
    Until ended(operation, IsOver<>{earlier->over}, 1);
    co_await ended;
  }
}

void DeviceTurn::pass_to_host() noexcept {
  own->on_host = true;
  own->of_leader = own->has_followed = false;
  pass();
}

void DeviceTurn::end() noexcept {
  own->over = true;
  while (own->before && own->before->over) own->before = own->before->before;
  if (queue && queue->last.lock() == own) queue->last = own->before;
}

DeviceWork::DeviceWork(Operation& operation, DeviceTurn& turn)
    : operation_(operation),
      peers_(operation.group().engine().device_peers()),
      device_(*operation.group().engine().device().opened()),
      turn_(turn) {
  const Group& group = operation.group();
  for (int member = 0; member < group.size(); ++member) {
    if (member != group.rank()) hold(peers_.hold(group.world_rank(member)));
  }
}

DeviceWork::~DeviceWork() {
  turn_.own->given_up = true;
  if (ended_ || !queued_) return;
  try {
    turn_.queue->copies.mark([held = held_](const std::exception_ptr&) {});
  } catch (const cuda::CudaError&) {
    // It is held all the same.
  }
}

// Order.

Task DeviceWork::follow(const DeviceMemory& memory, bool of_leader) {
  turn_.own->of_leader = of_leader;
  Task came = turn_.come(operation_);
  co_await came;
  follow_streams(memory);
  // One leader does both in order.
  const auto& before = turn_.own->before;
  if (!before || !before->of_leader || !of_leader) follow_row();
}

void DeviceWork::follow_streams(const DeviceMemory& memory) {
  const cuda::Current current(device_.context);
  const cuda::Driver& driver = device_.context.driver();
  for (const auto& buffer : {memory.given(), memory.got()}) {
    if (!buffer || device_.local_events.done(buffer->before)) continue;
    driver.must(driver.cuStreamWaitEvent, stream(), buffer->before, 0U);
    followed_.push_back(buffer->before);
  }
}

void DeviceWork::follow_row() {
  const cuda::Current current(device_.context);
  for (auto earlier = turn_.own->before; earlier; earlier = earlier->has_followed ? nullptr : earlier->before) {
    if (earlier->over || earlier->on_host) continue;
    (void)stream();  // on which it may still be under way
    for (const auto& [member, world_rank, ticket] : earlier->ends) {
      if (peers_.reaches(world_rank)) peers_.events(world_rank).wait(ticket, stream(), member);
    }
  }
  turn_.own->has_followed = true;
}

Task DeviceWork::record(cuda::EventTicket& ticket, int users) {
  ticket = cuda::kNoEvent;
  ++recorded_;
  if (users == 0 || !queued_ || try_record(ticket, users)) co_return;
  Task came = come();
  co_await came;
}

bool DeviceWork::try_record(cuda::EventTicket& ticket, int users) {
  const Group& group = operation_.group();
  if (group.poisoned()) return true;  // nobody would give it back
  const auto taken = device_.events.record(stream(), users, group.id());
  if (taken) ticket = *taken;
  return taken.has_value();
}

void DeviceWork::wait_for(int member, cuda::EventTicket ticket) {
  if (ticket == cuda::kNoEvent) return;
  const int world_rank = operation_.group().world_rank(member);
  if (!peers_.reaches(world_rank)) return lost_.push_back(member);
  peers_.events(world_rank).wait(ticket, stream(), member);
  watch(member, ticket);
}

// To ask whether it is done tells at once whether there is such a ticket.
void DeviceWork::watch(int member, cuda::EventTicket ticket) {
  if (ticket == cuda::kNoEvent || !reaches(member)) return;
  const Wait wait{member, ticket, recorded_};
  if (!is_done(wait)) waits_.push_back(wait);
}

void DeviceWork::ends_with(int member, cuda::EventTicket ticket) {
  if (ticket == cuda::kNoEvent) return;
  if (!reaches(member)) return lost_.push_back(member);
  const int world_rank = operation_.group().world_rank(member);
  const Wait wait{member, ticket, recorded_ + 1};
  if (is_done(wait)) return peers_.used(world_rank, ticket);
  waits_.push_back(wait);
  turn_.own->ends.push_back({member, world_rank, ticket});
}

void DeviceWork::wait_for_end(int member, cuda::EventTicket ticket) {
  wait_for(member, ticket);
  if (ticket != cuda::kNoEvent && reaches(member)) peers_.used(operation_.group().world_rank(member), ticket);
}

void DeviceWork::give_back(cuda::EventTicket ticket, int users) noexcept {
  while (ticket != cuda::kNoEvent && users-- > 0) (void)device_.events.give_back(ticket);
}

// Memory.

std::optional<cuda::Address> DeviceWork::map(int member, const DevicePlace& place, std::uint64_t bytes) {
  const int world_rank = operation_.group().world_rank(member);
  std::optional<cuda::ImportTable::Use> use;
  try {
    use = peers_.map(world_rank, place, bytes);
  } catch (const cuda::RegionError& error) {
    operation_.group().engine().peer(world_rank).reject(error.what());
  }
  if (!use) return std::nullopt;
  const cuda::Address address = use->address();
  hold(std::make_shared<cuda::ImportTable::Use>(std::move(*use)));
  return address;
}

std::shared_ptr<cuda::Staging::Block> DeviceWork::stage(std::size_t bytes) {
  auto block = operation_.group().engine().device().stage(bytes);
  hold(block);
  return block;
}

void DeviceWork::hold(std::shared_ptr<void> memory) { held_->push_back(std::move(memory)); }

void DeviceWork::copy(cuda::Address from, cuda::Address to, std::size_t bytes, int member) {
  if (bytes == 0 || from == to) return;
  queue(&cuda::Driver::cuMemcpyDtoDAsync, to, from, bytes, member);
}

void DeviceWork::copy(cuda::Address from, std::byte* to, std::size_t bytes) {
  queue(&cuda::Driver::cuMemcpyDtoHAsync, to, from, bytes, -1);
}

void DeviceWork::copy(const std::byte* from, cuda::Address to, std::size_t bytes) {
  const cuda::Current current(device_.context);
  cuda::queue_from_host(device_.context.driver(), {.peer = -1, .bytes = bytes}, to, from, bytes, stream());
}

void DeviceWork::move(std::vector<cuda::Move> moves) {
  std::erase_if(moves, [](const cuda::Move& move) { return move.bytes == 0 || move.from == move.to; });
  const auto together = std::partition(moves.begin(), moves.end(), [this](const cuda::Move& move) {
    const bool is_alike = (cuda::address_of(move.from) - cuda::address_of(move.to)) % cuda::kPackBytes == 0;
    return device_.reductions && (is_alike || move.bytes <= kMovedUnlike);
  });
  const auto one_by_one = together - moves.begin() > 1 ? together : moves.begin();
  if (one_by_one != moves.begin()) device_.reductions->move({moves.begin(), one_by_one}, stream());
  std::for_each(one_by_one, moves.end(), [this](const cuda::Move& move) {
    copy(cuda::address_of(move.from), cuda::address_of(move.to), move.bytes, -1);
  });
}

template <typename Copy, typename To, typename From>
void DeviceWork::queue(Copy cuda::Driver::*copy, To to, From from, std::size_t bytes, int member) {
  const cuda::Current current(device_.context);
  const cuda::Driver& driver = device_.context.driver();
  driver.must(cuda::CudaFacts{.peer = member, .bytes = bytes}, driver.*copy, to, from, bytes, stream());
}

Task DeviceWork::come() {
  const auto here = std::make_shared<DeviceEvent>();
  turn_.queue->copies.mark(DeviceEvent::ended(here));
  Task came = over(operation_, here);
  co_await came;
}

// The end.

// What has been told to be done with may be recorded anew; then it only seems not to be done.
bool DeviceWork::is_done(const Wait& wait) const {
  return reaches(wait.member) &&
         peers_.events(operation_.group().world_rank(wait.member)).done(wait.ticket, wait.member);
}

// The device goes through its waits in order. The first that is not over is to be named, and others of its phase: those
// of later ones may wait for this rank.
bool DeviceWork::awaits(int member) const {
  if (std::find(lost_.begin(), lost_.end(), member) != lost_.end()) return true;
  try {
    const cuda::Current current(device_.context);
    const auto started = [&](cuda::EventHandle event) { return device_.local_events.done(event); };
    if (!std::all_of(followed_.begin(), followed_.end(), started)) return false;
    const auto first = std::find_if(waits_.begin(), waits_.end(), [&](const Wait& wait) { return !is_done(wait); });
    return std::any_of(first, waits_.end(), [&](const Wait& wait) {
      return wait.phase == first->phase && wait.member == member && !is_done(wait);
    });
  } catch (const cuda::CudaError&) {
    return false;  // the failure itself will be told
  }
}

void DeviceWork::await_ends(const std::shared_ptr<DeviceEvent>& there) {
  there->over = turn_.own->ends.empty();
  if (there->over) return;
  cuda::Copies::Copy nothing;
  nothing.ready = [own = turn_.own, &peers = peers_] {
    return std::all_of(own->ends.begin(), own->ends.end(), [&](const CollectiveInRow::End& end) {
      return peers.reaches(end.world_rank) && peers.events(end.world_rank).done(end.ticket, end.member);
    });
  };
  nothing.given_up = [own = turn_.own] { return own->given_up; };
  nothing.ended = DeviceEvent::ended(there, held_);
  turn_.queue->copies.start(std::move(nothing));
}

Task DeviceWork::over_or_late(std::shared_ptr<DeviceEvent> event) const {
  static constexpr bool kNever = false;
  const auto awaited = [this](int member) { return awaits(member); };
  Until done(operation_, IsOver<decltype(awaited)>{lost_.empty() ? event->over : kNever, awaited}, 1);
  co_await done;
  if (event->failure) std::rethrow_exception(event->failure);
}

Task DeviceWork::end() {
  const auto here = std::make_shared<DeviceEvent>(), there = std::make_shared<DeviceEvent>();
  here->over = !queued_;
  if (queued_) last_ = turn_.queue->copies.mark(DeviceEvent::ended(here, held_));
  await_ends(there);
  turn_.pass();
  for (const auto& event : {here, there}) {
    Task done = over_or_late(event);
    co_await done;
  }
  ended_ = true;
  for (const auto& end : std::exchange(turn_.own->ends, {})) {
    if (peers_.reaches(end.world_rank)) peers_.used(end.world_rank, end.ticket);
  }
  turn_.end();
  held_.reset();
}

bool DeviceWork::order(CudaStream stream) const {
  if (!turn_.own->all_queued || ended_) return false;
  try {
    if (last_ && !turn_.queue->copies.order(*last_, handle_of(stream))) return false;
    for (const auto& [member, world_rank, ticket] : turn_.own->ends) {
      if (!peers_.reaches(world_rank)) return false;
      peers_.events(world_rank).wait(ticket, handle_of(stream), member);
    }
    if (!turn_.own->ends.empty()) operation_.group().engine().device().note_wait(stream);
    return true;
  } catch (const cuda::CudaError& error) {
    throw error_of(error, "wait_on");
  }
}

}  // namespace rondo::detail
