#include "collectives/device_port.hpp"

#include <span>

#include <rondo/plan.hpp>

#include "runtime/engine.hpp"

namespace rondo::detail {
namespace {

/// Before a range: where it lies. Region 0: nowhere that it could be mapped.
struct Note {
  std::uint64_t bytes = 0;
  DevicePlace place;
  cuda::EventTicket ready;
};

struct NoteAnswer {
  cuda::EventTicket done;
  std::uint32_t wants_payload = 0;
};

// The messages that one range takes, by the lower bits of their key.
constexpr std::uint32_t kNote = 0x40;
constexpr std::uint32_t kAnswer = 0x50;
constexpr std::uint32_t kPayload = 0x60;
static_assert(kMaxLanes <= 16);

template <typename Word>
std::span<std::byte> word_bytes(Word& word) {
  return std::as_writable_bytes(std::span(&word, 1));
}

}  // namespace

DeviceMessage::DeviceMessage(Engine& engine, Task body) : engine_(engine) {
  if (!body.valid()) {
    done_ = true;
    return;
  }
  task_ = run(*this, std::move(body));
  task_.start();
}

DeviceMessage::~DeviceMessage() {
  if (waiter_) engine_.forget(waiter_);
}

Task DeviceMessage::run(DeviceMessage& self, Task body) {
  try {
    co_await body;
  } catch (...) {
    self.error_ = std::current_exception();
  }
  self.done_ = true;
  if (self.waiter_) self.engine_.make_ready(self.waiter_);
}

DevicePort::DevicePort(DeviceWork& work, DeviceMemory& memory, const DeviceReduction& reduction, bool in_place,
                       bool sends_empty)
    : state_(std::make_shared<State>(State{work, memory, reduction, in_place, sends_empty, {}, {}})) {}

std::uint32_t DevicePort::key(std::map<std::pair<int, std::uint32_t>, std::uint32_t>& numbers, int member) const {
  return numbers[{member, lane_}]++ << 8U | lane_;
}

// Sending.

DeviceMessage DevicePort::send(const Range& range, int to) {
  Task body;
  if (range.count > 0 || state_->sends_empty) body = send_range(*state_, range, to, key(state_->sent, to));
  return DeviceMessage(engine(), std::move(body));
}

Task DevicePort::send_range(State& state, Range range, int to, std::uint32_t key) {
  DeviceWork& work = state.work;
  Note note;
  note.bytes = state.memory.bytes(range);
  if (note.bytes == 0) {
    SendMessage told(work.operation(), to, key | kNote, word_bytes(note));
    co_await told;
    co_return;
  }
  // The way back must be there, too.
  if (work.reaches(to)) note.place = work.expose(to, state.memory.facts(range), state.memory.address(range));
  if (note.place.region != 0) {
    Task recorded = work.record(note.ready, 1);
    co_await recorded;
  }
  NoteAnswer answer;
  ReceiveMessage heard(work.operation(), to, key | kAnswer, word_bytes(answer));
  SendMessage told(work.operation(), to, key | kNote, word_bytes(note));
  co_await told;
  co_await heard;
  if (note.place.region != 0) work.give_back(note.ready, 1);
  if (answer.wants_payload == 0) {
    work.wait_for_end(to, answer.done);
    co_return;
  }
  const auto block = work.stage(state.memory.bytes(range));
  state.memory.check_there(range);
  work.copy(state.memory.address(range), block->data(), block->size());
  Task fetched = work.come();
  co_await fetched;
  SendMessage sent(work.operation(), to, key | kPayload, std::span(block->data(), block->size()));
  co_await sent;
}

// Receiving.

DeviceMessage DevicePort::recv(const Range& range, int from) { return receive({range, {}, Side::right}, from); }

DeviceMessage DevicePort::recv_reduce(const Range& own, const Range& into, int from, Side side) {
  return receive({into, own, side}, from);
}

DeviceMessage DevicePort::receive(const Arrival& arrival, int from) {
  Task body;
  if (arrival.into.count > 0 || state_->sends_empty)
    body = receive_range(*state_, arrival, from, key(state_->received, from));
  return DeviceMessage(engine(), std::move(body));
}

Task DevicePort::receive_range(State& state, Arrival arrival, int from, std::uint32_t key) {
  DeviceWork& work = state.work;
  Note note;
  ReceiveMessage heard(work.operation(), from, key | kNote, word_bytes(note));
  co_await heard;
  Operation& operation = work.operation();
  const std::size_t wanted = state.memory.bytes(arrival.into);
  if (note.bytes != wanted) operation.group().refuse_count(operation, from, note.bytes, wanted);
  if (wanted == 0) co_return;
  NoteAnswer answer;
  const auto mapped = work.map(from, note.place, wanted);
  if (mapped) {
    work.wait_for(from, note.ready);
    take(state, arrival, *mapped, from);
    Task recorded = work.record(answer.done, 1);
    co_await recorded;
  }
  answer.wants_payload = mapped ? 0 : 1;
  SendMessage told(work.operation(), from, key | kAnswer, word_bytes(answer));
  co_await told;
  if (mapped) co_return;
  Task staged = receive_staged(state, arrival, from, key);
  co_await staged;
}

Range DevicePort::State::scratch(std::size_t count) {
  const Range range = memory.scratch(count);
  if (count > 0) work.hold(memory.holder_of(range));
  return range;
}

Task DevicePort::receive_staged(State& state, Arrival arrival, int from, std::uint32_t key) {
  DeviceWork& work = state.work;
  const auto block = work.stage(state.memory.bytes(arrival.into));
  ReceiveMessage payload(work.operation(), from, key | kPayload, std::span(block->data(), block->size()));
  co_await payload;
  const Range place = arrival.own.count > 0 ? state.scratch(arrival.into.count) : arrival.into;
  work.copy(block->data(), state.memory.address(place), block->size());
  if (arrival.own.count > 0) take(state, arrival, state.memory.address(place), from);
}

void DevicePort::take(State& state, const Arrival& arrival, cuda::Address from, int member) {
  if (arrival.own.count == 0) {
    return state.work.copy(from, state.memory.address(arrival.into), state.memory.bytes(arrival.into), member);
  }
  combine(state, state.memory.address(arrival.own), from, arrival.into, arrival.side);
}

// Here.

void DevicePort::copy(const Range& from, const Range& to) {
  state_->work.copy(state_->memory.address(from), state_->memory.address(to), state_->memory.bytes(from), -1);
}

void DevicePort::reduce(const Range& own, const Range& other, const Range& into, Side side) {
  if (own.count == 0) return;
  combine(*state_, state_->memory.address(own), state_->memory.address(other), into, side);
}

void DevicePort::combine(State& state, cuda::Address own, cuda::Address other, const Range& into, Side side) {
  const cuda::Address left = side == Side::right ? own : other;
  const cuda::Address right = side == Side::right ? other : own;
  const cuda::CombineArguments arguments{reinterpret_cast<const void*>(left), reinterpret_cast<const void*>(right),
                                         reinterpret_cast<void*>(state.memory.address(into)), into.count};
  state.reduction.kernels->combine(state.reduction.functions, arguments, state.work.stream());
}

void DevicePort::finish(const Range& range) {
  const DeviceReduction& reduction = state_->reduction;
  if (range.count == 0 || reduction.functions.divide == nullptr) return;
  const cuda::DivideArguments arguments{reinterpret_cast<void*>(state_->memory.address(range)), range.count, size()};
  reduction.kernels->divide(reduction.functions, arguments, state_->work.stream());
}

}  // namespace rondo::detail
