#include "tests/cuda/stand_in/streams.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cuda/stand_in/entry_points.hpp"
#include "tests/cuda/stand_in/machine.hpp"

namespace rondo::stand_in {
namespace {

void delay(std::minstd_rand::result_type word) {
  constexpr unsigned kMostMicroseconds = 300;
  if (word % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(word / 2 % kMostMicroseconds));
}

}  // namespace
}  // namespace rondo::stand_in

namespace rondo::cuda {

StreamState::StreamState(int on_device, std::uint64_t seed, bool is_blocking)
    : device(on_device),
      blocking(is_blocking),
      random_(static_cast<std::minstd_rand::result_type>(seed)),
      delays_(seed != 0) {}

std::shared_ptr<StreamState> StreamState::start(int on_device, std::uint64_t seed, bool is_blocking) {
  const auto stream = std::make_shared<StreamState>(on_device, seed, is_blocking);
  std::thread([stream] { stream->work_on(); }).detach();
  return stream;
}

void StreamState::queue(std::function<void()> work) {
  const std::scoped_lock lock(mutex_);
  if (capturing_) rondo::stand_in::mistake("work is queued on a stream that is being captured");
  queue_.push_back(std::move(work));
  changed_.notify_all();
}

void StreamState::queue_or_do(const std::function<void()>& work) {
  {
    const std::scoped_lock lock(mutex_);
    if (!delays_ && !busy_ && !capturing_ && queue_.empty()) return work();
  }
  queue(work);
}

bool StreamState::idle() {
  const std::scoped_lock lock(mutex_);
  if (!queue_.empty() || busy_) return false;
  notices_ = notices_ || !delays_ || random_() % 2 == 0;
  return notices_;
}

void StreamState::synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return queue_.empty() && !busy_; });
}

bool StreamState::capture(bool on) {
  const std::scoped_lock lock(mutex_);
  return std::exchange(capturing_, on) != on;
}

bool StreamState::capturing() {
  const std::scoped_lock lock(mutex_);
  return capturing_;
}

void StreamState::end() {
  const std::scoped_lock lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

void StreamState::work_on() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ended_ || !queue_.empty(); });
    if (queue_.empty()) break;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    const auto late = random_();
    lock.unlock();
    if (delays_) rondo::stand_in::delay(late);
    work();
    work = nullptr;  // what it holds goes before anybody hears that it is done
    lock.lock();
    busy_ = false;
    notices_ = false;
    changed_.notify_all();
  }
}

}  // namespace rondo::cuda

namespace rondo::stand_in {
namespace {

/// Whose default stream it is of a device: that of all threads, or one's.
using DefaultStream = std::pair<int, std::thread::id>;

struct Streams {
  std::mutex mutex;
  std::map<StreamState*, std::shared_ptr<StreamState>> all;  ///< but the default ones
  std::map<DefaultStream, std::shared_ptr<StreamState>> default_streams;
  std::uint64_t made = 0;
};

/// Never destroyed: threads may outlast the end of main.
Streams& streams() {
  static auto* const state = new Streams;
  return *state;
}

/// Under the mutex.
std::shared_ptr<StreamState> make_stream(Streams& state, int device, bool is_blocking) {
  const std::uint64_t seed = machine().seed;
  return StreamState::start(device, seed == 0 ? 0 : seed * 1000 + ++state.made, is_blocking);
}

}  // namespace

StreamState& stream_of(StreamHandle handle) {
  Streams& state = streams();
  const std::scoped_lock lock(state.mutex);
  const auto name = reinterpret_cast<std::uintptr_t>(handle);
  if (name > kDefaultOfThread) {
    if (!state.all.contains(handle)) mistake("a stream is used after it was destroyed");
    return *handle;
  }
  const std::thread::id thread = name > kDefaultOfAll ? std::this_thread::get_id() : std::thread::id{};
  std::shared_ptr<StreamState>& stream = state.default_streams[{current_device(), thread}];
  if (stream == nullptr) stream = make_stream(state, current_device(), true);
  return *stream;
}

void synchronize_device(int device) {
  Streams& state = streams();
  std::vector<std::shared_ptr<StreamState>> of_device;
  {
    const std::scoped_lock lock(state.mutex);
    for (const auto& [handle, stream] : state.all) {
      if (stream->device == device) of_device.push_back(stream);
    }
    for (const auto& [whose, stream] : state.default_streams) {
      if (whose.first == device) of_device.push_back(stream);
    }
  }
  for (const auto& stream : of_device) stream->synchronize();
}

bool captures_for_default(int device) {
  Streams& state = streams();
  const std::scoped_lock lock(state.mutex);
  return std::any_of(state.all.begin(), state.all.end(), [&](const auto& entry) {
    StreamState& stream = *entry.second;
    return stream.device == device && stream.blocking && stream.capturing();
  });
}

void be_late() {
  // Not as late as the other processes of the same seed.
  static thread_local std::minstd_rand random(
      static_cast<std::minstd_rand::result_type>(machine().seed * 1000 + static_cast<unsigned>(::getpid())));
  if (machine().seed != 0) delay(random());
}

}  // namespace rondo::stand_in

using namespace rondo::stand_in;

Result cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  if (const Result result = entered_in_context("cuCtxGetStreamPriorityRange"); result != Result::success) return result;
  *least = 0;
  *greatest = -5;
  return Result::success;
}

Result cuStreamCreateWithPriority(StreamHandle* stream, unsigned flags, int) {
  if (const Result result = entered_in_context("cuStreamCreateWithPriority"); result != Result::success) return result;
  Streams& state = streams();
  const std::scoped_lock lock(state.mutex);
  const auto made = make_stream(state, current_device(), (flags & kStreamNonBlocking) == 0);
  *stream = made.get();
  state.all.emplace(*stream, made);
  count_live((*stream)->device, "stream(s)", 1);
  return Result::success;
}

Result cuStreamDestroy_v2(StreamHandle handle) {
  if (const Result result = entered_in_context("cuStreamDestroy"); result != Result::success) return result;
  StreamState& stream = stream_of(handle);
  Streams& state = streams();
  const std::scoped_lock lock(state.mutex);
  count_live(stream.device, "stream(s)", -1);
  stream.end();
  state.all.erase(handle);
  return Result::success;
}

Result cuStreamGetFlags(StreamHandle stream, unsigned* flags) {
  if (const Result result = entered_in_context("cuStreamGetFlags"); result != Result::success) return result;
  *flags = stream_of(stream).blocking ? 0 : kStreamNonBlocking;
  return Result::success;
}

Result cuStreamQuery(StreamHandle stream) {
  if (const Result result = entered_in_context("cuStreamQuery"); result != Result::success) return result;
  return stream_of(stream).idle() ? Result::success : Result::not_ready;
}

Result cuStreamSynchronize(StreamHandle stream) {
  if (const Result result = entered_in_context("cuStreamSynchronize"); result != Result::success) return result;
  stream_of(stream).synchronize();
  return Result::success;
}
