#include "tests/simulation/simulated_world.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "runtime/access.hpp"
#include "runtime/world.hpp"

namespace rondo::testing {

using detail::Duration;
using detail::FrameHeader;
using detail::Outgoing;
using detail::Progress;
using detail::Sink;
using detail::Time;

/// One direction between two ranks.
struct SimulatedWorld::Connection {
  struct Frame {
    FrameHeader header;
    std::vector<std::byte> payload;
    Time begins;  // the header is there
    Time ends;    // and the whole payload; later than `begins`: it comes in two pieces
  };
  int reader = 0;
  int writer = 0;
  std::deque<Frame> frames;
  std::size_t held_bytes = 0;
  Time last{};
};

/// Frames travel for a random time, behind those sent before them.
class SimulatedWorld::SimulatedLink final : public detail::Link {
 public:
  SimulatedLink(SimulatedWorld& world, std::shared_ptr<Connection> out, std::shared_ptr<Connection> in)
      : world_(world), out_(std::move(out)), in_(std::move(in)) {}

  void send(Outgoing& frame) override {
    frame.written = 0;
    queue_.push(frame);
    flush();
  }
  void release(Outgoing& frame) override { queue_.replace(frame, nullptr); }
  void discard() override { place_ = nullptr; }

  std::size_t poll(Sink& sink) override {
    std::size_t moved = flush();
    while (!in_->frames.empty() && receive(sink, in_->frames.front())) ++moved;
    return moved;
  }

  bool flushed() const override { return queue_.empty(); }
  void shut_down() noexcept override {}
  bool drained() const override { return true; }
  int descriptor() const override { return -1; }
  bool wants_write() const override { return !queue_.empty(); }
  std::string_view transport() const override { return "simulated"; }

 private:
  std::size_t flush() {
    std::size_t moved = 0;
    while (!queue_.empty()) {
      Outgoing& frame = *queue_.head();
      const std::size_t bytes = sizeof(FrameHeader) + frame.payload.size();
      if (!out_->frames.empty() && out_->held_bytes + bytes > world_.limits_.link_bytes) break;
      queue_.pop();
      const Time begins = std::max(out_->last, world_.clock_.now()) + world_.delay();
      const bool in_pieces = frame.payload.size() > 1 && world_.random_() % 2 == 0;
      const Time ends = in_pieces ? begins + world_.delay() : begins;
      out_->last = ends;
      out_->held_bytes += bytes;
      out_->frames.push_back({frame.header, {frame.payload.begin(), frame.payload.end()}, begins, ends});
      world_.at(begins, out_->reader);
      if (in_pieces) world_.at(ends, out_->reader);
      frame.on_sent(frame);
      ++moved;
    }
    return moved;
  }

  // True: the frame is over.
  bool receive(Sink& sink, Connection::Frame& frame) {
    const Time now = world_.clock_.now();
    if (frame.begins > now) return false;
    if (!begun_ && frame.ends <= now) {
      sink.deliver(frame.header, frame.payload);
    } else {
      if (!std::exchange(begun_, true)) place_ = sink.accept(frame.header);
      if (frame.ends > now) return false;
      if (place_) std::memcpy(place_, frame.payload.data(), frame.payload.size());
      begun_ = false;
      place_ = nullptr;
      sink.arrived(frame.header);
    }
    in_->held_bytes -= sizeof(FrameHeader) + frame.payload.size();
    in_->frames.pop_front();
    world_.at(now, in_->writer);  // there is room again
    return true;
  }

  SimulatedWorld& world_;
  std::shared_ptr<Connection> out_;
  std::shared_ptr<Connection> in_;
  detail::FrameQueue queue_;
  bool begun_ = false;
  std::byte* place_ = nullptr;
};

void SimulatedWorld::SimulatedWaiter::wait(detail::WakeList&, Duration timeout) {
  if (!world_.advance()) world_.clock_.now_ += timeout;
}

SimulatedWorld::SimulatedWorld(int size, std::uint64_t seed, const Limits& limits) : random_(seed), limits_(limits) {
  for (int rank = 0; rank < size; ++rank) {
    detail::Engine::Settings settings;
    settings.rank = rank;
    settings.size = size;
    settings.eager_limit = limits.eager_limit;
    settings.unexpected_bytes = limits.unexpected_bytes;
    settings.hosts = limits.hosts;
    settings.slices_from = limits.slices_from;
    settings.idle.spin = settings.idle.yield = Duration::zero();
    settings.helper_thread = false;
    engines_.push_back(std::make_shared<detail::Engine>(settings, clock_, waiter_, detail::Log()));
  }
  const auto connection = [](int writer, int reader) {
    auto made = std::make_shared<Connection>();
    made->writer = writer;
    made->reader = reader;
    return made;
  };
  for (int a = 0; a < size; ++a) {
    for (int b = a; b < size; ++b) {
      const auto there = connection(a, b);
      const auto back = a == b ? there : connection(b, a);
      engines_[static_cast<std::size_t>(a)]->peer(b).attach(std::make_unique<SimulatedLink>(*this, there, back));
      if (a != b) {
        engines_[static_cast<std::size_t>(b)]->peer(a).attach(std::make_unique<SimulatedLink>(*this, back, there));
      }
    }
  }
  std::vector<int> everybody(static_cast<std::size_t>(size));
  std::iota(everybody.begin(), everybody.end(), 0);
  for (int rank = 0; rank < size; ++rank) communicators_.push_back(make(rank, detail::kWorldId, everybody));
}

SimulatedWorld::~SimulatedWorld() { communicators_.clear(); }

Communicator SimulatedWorld::make(int rank, std::uint64_t id, std::vector<int> members) {
  const auto& engine = engines_[static_cast<std::size_t>(rank)];
  return CommunicatorAccess::make(engine, engine->make_group(id, std::move(members)));
}

void SimulatedWorld::run() {
  std::size_t moved = 0;
  do {
    while (advance()) {
    }
    // What one operation was waiting for in another of the same rank is no event.
    moved = 0;
    for (const auto& engine : engines_) {
      Progress::Entry entry(engine->progress());
      moved += engine->poll(detail::Engine::Look::everything);
    }
  } while (moved > 0 || !agenda_.empty());
}

bool SimulatedWorld::quiet(int rank, std::uint64_t id) {
  detail::Group* const group = engines_[static_cast<std::size_t>(rank)]->find_group(id);
  return group && group->idle() && !group->has_unexpected();
}

bool SimulatedWorld::credit_complete(int from, int to) {
  const detail::Peer& sender = engines_[static_cast<std::size_t>(from)]->peer(to);
  const detail::Peer& receiver = engines_[static_cast<std::size_t>(to)]->peer(from);
  return sender.credit() + receiver.untold() == sender.window();
}

bool SimulatedWorld::advance() {
  if (agenda_.empty()) return false;
  const auto [when, rank] = *agenda_.begin();
  agenda_.erase(agenda_.begin());
  clock_.now_ = std::max(clock_.now_, when);
  ++events_;
  detail::Engine& engine = *engines_[static_cast<std::size_t>(rank)];
  Progress::Entry entry(engine.progress());
  engine.poll(detail::Engine::Look::everything);
  return true;
}

void SimulatedWorld::at(Time when, int rank) { agenda_.emplace(when, rank); }

// Mostly short, now and then so long that others overtake.
Duration SimulatedWorld::delay() {
  const std::uint64_t kind = random_() % 16;
  return Duration(static_cast<std::int64_t>(random_() % (kind == 0 ? 100'000 : 2'000)));
}

}  // namespace rondo::testing
