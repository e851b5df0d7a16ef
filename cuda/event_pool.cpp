#include "cuda/event_pool.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "cuda/region.hpp"

namespace rondo::cuda {

EventPool::EventPool(const PrimaryContext& context, std::size_t size) : context_(context) {
  const Driver& driver = context.driver();
  const Current current(context);
  slots_.resize(size);
  handles_.resize(size);
  try {
    for (std::size_t i = size; i-- > 0;) {
      driver.must(driver.cuEventCreate, &slots_[i].event, kEventInterprocess | kEventDisableTiming);
      driver.must(driver.cuIpcGetEventHandle, &handles_[i], slots_[i].event);
      free_.push_back(static_cast<std::uint32_t>(i));
    }
  } catch (...) {
    destroy();
    throw;
  }
}

EventPool::~EventPool() { destroy(); }

void EventPool::destroy() noexcept {
  const Current current(context_, std::nothrow);
  if (!current) return;
  for (const Slot& slot : slots_) {
    if (slot.event != nullptr) context_.driver().cuEventDestroy(slot.event);
  }
}

std::optional<EventTicket> EventPool::record(StreamHandle stream, int users, std::uint64_t owner) {
  if (free_.empty()) return std::nullopt;
  const Driver& driver = context_.driver();
  const Current current(context_);
  const auto found = next();
  if (found == free_.end()) return std::nullopt;
  const std::uint32_t index = *found;
  Slot& slot = slots_[index];
  driver.must(driver.cuEventRecord, slot.event, stream);
  free_.erase(found);
  slot.users = users;
  slot.owner = owner;
  slot.trusted = false;
  return EventTicket{index, ++slot.generation};
}

bool EventPool::can_record() const {
  if (free_.empty()) return false;
  const Current current(context_);
  return next() != free_.end();
}

std::vector<std::uint32_t>::const_iterator EventPool::next() const {
  // The one that has been free for the longest: who asks late for an earlier use still hears of that one.
  return std::find_if(free_.begin(), free_.end(), [this](std::uint32_t index) {
    const Slot& slot = slots_[index];
    return !slot.trusted || is_done(slot);
  });
}

bool EventPool::is_done(const Slot& slot) const {
  const Driver& driver = context_.driver();
  const Result result = driver.cuEventQuery(slot.event);
  if (result == Result::not_ready) return false;
  if (result != Result::success) driver.fail(driver.cuEventQuery.name, result);
  return true;
}

bool EventPool::give_back(EventTicket ticket) noexcept {
  if (ticket.index >= slots_.size()) return false;
  Slot& slot = slots_[ticket.index];
  if (slot.users == 0 || slot.generation != ticket.generation) return slot.given_up;
  if (--slot.users == 0) free_.push_back(ticket.index);  // never more than all, for which it has room
  return true;
}

void EventPool::give_up(std::uint64_t owner) noexcept {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (slot.users == 0 || slot.owner != owner) continue;
    slot.users = 0;
    slot.given_up = true;
    slot.trusted = true;
    free_.push_back(static_cast<std::uint32_t>(i));
  }
}

ImportedEvents::ImportedEvents(const PrimaryContext& context, std::span<const IpcEventHandle> handles, int peer)
    : context_(context) {
  const Driver& driver = context.driver();
  const Current current(context);
  events_.reserve(handles.size());
  try {
    for (const IpcEventHandle& handle : handles) {
      EventHandle event = nullptr;
      driver.must(CudaFacts{.peer = peer, .bytes = 0}, driver.cuIpcOpenEventHandle, &event, handle);
      events_.push_back(event);
    }
  } catch (...) {
    destroy();
    throw;
  }
}

ImportedEvents::~ImportedEvents() { destroy(); }

void ImportedEvents::destroy() noexcept {
  const Current current(context_, std::nothrow);
  if (!current) return;
  for (EventHandle event : events_) context_.driver().cuEventDestroy(event);
}

EventHandle ImportedEvents::event(EventTicket ticket) const {
  if (ticket.index < events_.size()) return events_[ticket.index];
  throw RegionError(fmt::format("it spoke of event {}, wanted one of {}", ticket.index, events_.size()));
}

void ImportedEvents::wait(EventTicket ticket, StreamHandle stream, int peer) const {
  const Driver& driver = context_.driver();
  const Current current(context_);
  driver.must(CudaFacts{.peer = peer, .bytes = 0}, driver.cuStreamWaitEvent, stream, event(ticket), 0U);
}

bool ImportedEvents::done(EventTicket ticket, int peer) const {
  const Driver& driver = context_.driver();
  const Current current(context_);
  const Result result = driver.cuEventQuery(event(ticket));
  if (result == Result::not_ready) return false;
  if (result != Result::success) driver.fail(driver.cuEventQuery.name, result, CudaFacts{.peer = peer, .bytes = 0});
  return true;
}

}  // namespace rondo::cuda
