#include "cuda/copies.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace rondo::cuda {

namespace {

/// From so many bytes on a driver of an H200 (580) has plain copies made by an engine that copies.
constexpr std::size_t kCopiedAsItIs = std::size_t{32} << 10;

/// Two rows, one behind the other.
void queue_rows(const Driver& driver, const CudaFacts& facts, Address to, Address from, std::size_t row_bytes,
                StreamHandle stream) {
  RowsCopy copy;
  copy.from.memory_type = kMemoryTypeHost;
  copy.from.host = from;
  copy.to.memory_type = kMemoryTypeDevice;
  copy.to.device = to;
  copy.from.pitch = copy.to.pitch = copy.row_bytes = row_bytes;
  copy.rows = 2;
  driver.must(facts, driver.cuMemcpy2DAsync, &copy, stream);
}

}  // namespace

void queue_from_host(const Driver& driver, const CudaFacts& facts, Address to, const void* from, std::size_t bytes,
                     StreamHandle stream) {
  if (bytes < 2 || bytes >= kCopiedAsItIs) {
    return driver.must(facts, driver.cuMemcpyHtoDAsync, to, from, bytes, stream);
  }
  queue_rows(driver, facts, to, address_of(from), bytes / 2, stream);
  // An odd byte goes with the one before it, once more.
  if (bytes % 2 != 0) queue_rows(driver, facts, to + bytes - 2, address_of(from) + bytes - 2, 1, stream);
}

LocalEvents::~LocalEvents() {
  const Driver& driver = context_.driver();
  const Current current(context_, std::nothrow);
  if (!current) return;
  for (const EventHandle event : all_) driver.cuEventDestroy(event);
}

EventHandle LocalEvents::record(StreamHandle stream) {
  const Driver& driver = context_.driver();
  if (free_.empty()) {
    EventHandle made = nullptr;
    driver.must(driver.cuEventCreate, &made, kEventDisableTiming);
    all_.push_back(made);
    free_.push_back(made);
  }
  const EventHandle event = free_.back();
  driver.must(driver.cuEventRecord, event, stream);
  free_.pop_back();
  return event;
}

// What is recorded on a stream that waits for the default one comes after what that has been given, too.
EventHandle LocalEvents::record_unless_at_rest(StreamHandle stream) {
  const Driver& driver = context_.driver();
  unsigned flags = 0;
  driver.must(driver.cuStreamGetFlags, stream, &flags);
  if ((flags & kStreamNonBlocking) != 0 && driver.cuStreamQuery(stream) == Result::success) return nullptr;
  return record(stream);
}

bool LocalEvents::done(EventHandle event, const CudaFacts& facts) const {
  if (event == nullptr) return true;
  const Driver& driver = context_.driver();
  const Result result = driver.cuEventQuery(event);
  if (result != Result::success && result != Result::not_ready) driver.fail(driver.cuEventQuery.name, result, facts);
  return result == Result::success;
}

class Copies::Running : public std::enable_shared_from_this<Running> {
 public:
  explicit Running(Copy wanted) : copy(std::move(wanted)) {}

  Copy copy;
  bool queued = false;
  bool over = false;
  std::shared_ptr<Stream> lane;  // of its own, with waits ahead of it
  // Recorded after it once something else is to come there: until then it is over when the stream has nothing left.
  EventHandle done = nullptr;
  // That came once it was queued; told when the device is done, or then.
  std::exception_ptr failure;
  std::chrono::steady_clock::time_point told_at;
};

bool Copies::stop(std::chrono::nanoseconds patience) noexcept {
  if (running_.empty() && left_.empty()) return true;
  for (const auto until = std::chrono::steady_clock::now() + patience; !drained(); std::this_thread::yield()) {
    if (std::chrono::steady_clock::now() > until) return false;
  }
  for (const auto& running : running_) {
    events_.give_back(std::exchange(running->done, nullptr));
    running->copy = {};
  }
  running_.clear();
  last_.reset();
  forget_left();
  return true;
}

void Copies::forget_left() noexcept {
  std::erase_if(left_, [this](const std::shared_ptr<Running>& running) {
    if (!is_drained(lane_of(*running))) return false;
    running->lane.reset();
    running->copy = {};  // who holds a copy may be held by it
    return true;
  });
}

bool Copies::is_drained(const Stream& stream) noexcept {
  try {
    return stream.idle();
  } catch (const CudaError&) {
    return true;  // the device has failed: nothing is moving any more
  }
}

// A stream may seem to come to its end a little after the last that was queued there.
bool Copies::drained() const noexcept { return ((marked_ && idle()) || is_drained(stream_)) && lanes_drained(); }

bool Copies::lanes_drained() const noexcept {
  return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return is_drained(*lane); });
}

std::shared_ptr<Copies::Running> Copies::start(Copy copy) {
  const auto running = running_.emplace_back(std::make_shared<Running>(std::move(copy)));
  try {
    bool over = false;  // then the next poll finds it so
    (void)advance(*running, over);
  } catch (const CudaError&) {
    fail(*running);
  }
  return running;
}

bool Copies::has_begun(const Running& running) noexcept { return running.queued || running.over; }

std::shared_ptr<Copies::Running> Copies::mark(std::function<void(std::exception_ptr)> reached) {
  auto running = std::make_shared<Running>(Copy{});
  running->copy.ended = std::move(reached);
  running->queued = true;
  try {
    settle();
  } catch (const CudaError&) {
    left_.push_back(std::move(running));
    throw;
  }
  marked_ = true;
  last_ = running;
  return running_.emplace_back(std::move(running));
}

StreamHandle Copies::stream() {
  marked_ = false;
  settle();
  return stream_.handle();
}

void Copies::settle() {
  if (!last_) return;
  const Current current(context_);
  mark_end(*std::exchange(last_, nullptr));
}

void Copies::mark_end(Running& running) {
  if (!running.over && running.done == nullptr) running.done = events_.record(stream_of(running));
}

// Lanes.

const Stream& Copies::lane_of(const Running& running) const noexcept { return running.lane ? *running.lane : stream_; }

StreamHandle Copies::stream_of(const Running& running) const noexcept { return lane_of(running).handle(); }

std::shared_ptr<Stream> Copies::free_lane() {
  const auto free = std::find_if(lanes_.begin(), lanes_.end(),
                                 [](const auto& lane) { return lane.use_count() == 1 && lane->idle(); });
  if (free != lanes_.end()) return *free;
  if (lanes_.size() == kMostLanes) return nullptr;
  return lanes_.emplace_back(std::make_shared<Stream>(context_));
}

bool Copies::hasten(Running& running) {
  if (running.queued || running.lane || running.failure) return running.queued && !running.failure;
  const Copy& copy = running.copy;
  if (!copy.follow || (copy.given_up && copy.given_up())) return false;
  const Current current(context_);
  auto lane = free_lane();
  if (!lane || !copy.follow(lane->handle())) return false;
  running.lane = std::move(lane);
  if (copy.bytes == 0) return false;
  try {
    queue(running);
  } catch (const CudaError&) {
    fail(running);
  }
  return !running.failure;
}

bool Copies::order(Running& running, StreamHandle stream) {
  if (!hasten(running)) return false;
  if (running.over) return true;
  const Driver& driver = context_.driver();
  const Current current(context_);
  mark_end(running);
  driver.must(driver.cuStreamWaitEvent, stream, running.done, 0U);
  return true;
}

std::size_t Copies::poll() {
  forget_left();
  std::size_t moved = 0;
  for (auto at = running_.begin(); at != running_.end();) {
    const std::shared_ptr<Running> running = *at;
    bool over = false;
    try {
      moved += advance(*running, over) ? 1 : 0;
    } catch (const CudaError&) {
      fail(*running);
      over = !running->queued;
    }
    if (!over) {
      ++at;
      continue;
    }
    at = running_.erase(at);
    running->over = true;
    if (last_ == running) last_.reset();
    events_.give_back(std::exchange(running->done, nullptr));
    running->copy.ended(running->failure);
    if (running->failure && running->queued && !is_drained(lane_of(*running))) {
      left_.push_back(running);
      continue;
    }
    // What it holds need not live as long as those who look at it.
    running->lane.reset();
    running->copy = {};
  }
  return moved;
}

void Copies::fail(Running& running) noexcept {
  running.failure = std::current_exception();
  running.told_at = std::chrono::steady_clock::now() + kPatience;
}

bool Copies::advance(Running& running, bool& over) {
  const Copy& copy = running.copy;
  if (running.failure) {
    over = !running.queued || is_drained(lane_of(running)) || std::chrono::steady_clock::now() >= running.told_at;
    return over;
  }
  const Current current(context_);
  if (!running.queued) {
    if (copy.given_up && copy.given_up()) {
      over = true;
      return true;
    }
    if (!running.lane && copy.ready && !copy.ready()) return false;
    over = copy.bytes == 0;
    if (!over) queue(running);
    return true;
  }
  const CudaFacts facts{.peer = copy.peer, .bytes = copy.bytes};
  over = running.done == nullptr ? lane_of(running).idle(facts) : events_.done(running.done, facts);
  return over;
}

void Copies::queue(Running& running) {
  if (!running.lane) settle();
  const Driver& driver = context_.driver();
  const Copy& copy = running.copy;
  const CudaFacts facts{.peer = copy.peer, .bytes = copy.bytes};
  const StreamHandle stream = stream_of(running);
  if (copy.to_host != nullptr) {
    driver.must(facts, driver.cuMemcpyDtoHAsync, copy.to_host, copy.from, copy.bytes, stream);
  } else if (copy.from_host != nullptr) {
    queue_from_host(driver, facts, copy.to, copy.from_host, copy.bytes, stream);
  } else {
    driver.must(facts, driver.cuMemcpyDtoDAsync, copy.to, copy.from, copy.bytes, stream);
  }
  running.queued = true;
  if (!running.lane) last_ = running.shared_from_this();
}

}  // namespace rondo::cuda
