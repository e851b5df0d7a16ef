#include "runtime/rank_device.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <rondo/error.hpp>

namespace rondo::detail {
namespace {

Error refusal(Errc code, const char* operation, const std::string& cause) {
  return {code, cause, {.operation = operation}};
}

const cuda::Driver& driver_for(const char* operation) {
  const cuda::DriverSearch& search = cuda::driver();
  if (search.driver) return *search.driver;
  throw refusal(Errc::cuda, operation, "there is no CUDA driver: " + search.reason);
}

Error::Facts with_call(Error::Facts facts, const cuda::CudaError& error) {
  facts.cuda_call = error.call();
  facts.cuda_code = static_cast<int>(error.code());
  facts.cuda_bytes = error.bytes();
  return facts;
}

}  // namespace

Error error_of(const std::exception_ptr& failure, const std::string& what, Error::Facts facts) {
  try {
    std::rethrow_exception(failure);
  } catch (const cuda::CudaError& error) {
    if (facts.peer < 0) facts.peer = error.peer();
    const std::string text = what.empty() ? error.what() : fmt::format("{}: {}", what, error.what());
    return Error(Errc::cuda, text, with_call(std::move(facts), error));
  }
}

Error error_of(const cuda::CudaError& refusal, const char* operation, const std::string& what) {
  return Error(Errc::cuda, what + refusal.what(), with_call({.operation = operation}, refusal));
}

RankDevice::~RankDevice() {
  stop();
  if (opened_ && !stuck_) free_the_rest();
  if (stuck_ || kept_for_others_) leave_to_driver(std::shared_ptr<Opened>(std::move(opened_)));
}

void RankDevice::free_the_rest() noexcept {
  const cuda::Current current(opened_->context, std::nothrow);
  if (!current) return;
  for (const auto& [bytes, address] : std::exchange(opened_->scratch, {})) {
    parked_.push_back({address, bytes});
    // Everybody has been told to close all that is this rank's.
    (void)opened_->exports.retire(address, bytes);
  }
  // Nobody could act on an error.
  for (const Allocation& allocation : parked_) {
    if (opened_->exports.is_closed(allocation.address, allocation.bytes)) {
      opened_->context.driver().cuMemFree(allocation.address);
    } else {
      log_.warn("{} bytes of the device are not freed: somebody has not been done with them", allocation.bytes);
    }
  }
}

// What is under way.

std::size_t RankDevice::poll() {
  if (!busy()) return 0;
  // Once for all that is asked.
  const cuda::Current current(opened_->context, std::nothrow);
  std::size_t moved = opened_->copies.poll();
  for (std::size_t i = 0; i < opened_->queues.size(); ++i) moved += opened_->queues[i]->copies.poll();
  return moved;
}

bool RankDevice::busy() const noexcept {
  if (!opened_) return false;
  const auto idle = [](const auto& queue) { return queue->copies.idle(); };
  return !opened_->copies.idle() || !std::all_of(opened_->queues.begin(), opened_->queues.end(), idle);
}

void RankDevice::note_wait(CudaStream stream) {
  (void)streams_wait();  // forgets those that do not
  const cuda::Current current(opened_->context);
  waits_.push_back(opened_->local_events.record(handle_of(stream)));
}

bool RankDevice::streams_wait() noexcept {
  std::erase_if(waits_, [this](cuda::EventHandle event) {
    try {
      const cuda::Current current(opened_->context);
      if (!opened_->local_events.done(event)) return false;
    } catch (const cuda::CudaError&) {
      // The device has failed: nothing waits any more.
    }
    opened_->local_events.give_back(event);
    return true;
  });
  return !waits_.empty();
}

bool RankDevice::streams_are_late() noexcept {
  try {
    while (!late_.empty() && came(**late_.begin())) late_.erase(late_.begin());
  } catch (const cuda::CudaError&) {
    late_.clear();  // the device has failed: nothing waits any more
  }
  return !late_.empty();
}

bool RankDevice::waits_for_others() noexcept {
  if (!opened_) return false;
  const auto is_drained = [](const auto& queue) { return queue->copies.drained(); };
  return !opened_->copies.lanes_drained() || !std::all_of(opened_->queues.begin(), opened_->queues.end(), is_drained) ||
         streams_wait();
}

bool RankDevice::may_wait() noexcept { return waits_for_others() || streams_are_late(); }

bool RankDevice::drained() noexcept { return !opened_ || (opened_->copies.drained() && !may_wait()); }

void RankDevice::stop(std::chrono::nanoseconds patience) noexcept {
  if (!opened_ || stuck_) return;
  const auto until = std::chrono::steady_clock::now() + patience;
  stuck_ = !opened_->copies.stop(patience);
  for (const auto& queue : opened_->queues) stuck_ |= !queue->copies.stop(until - std::chrono::steady_clock::now());
  stuck_ |= streams_wait();
}

void RankDevice::leave_to_driver(std::shared_ptr<void> held) {
  // Never destroyed.
  static auto* const kept = new std::vector<std::shared_ptr<void>>;
  kept->push_back(std::move(held));
}

// What callers give.

std::shared_ptr<DeviceBuffer> RankDevice::begin(const DeviceBytes& bytes, const char* operation) {
  if (bytes.size == 0) return nullptr;
  const cuda::Driver& driver = driver_for(operation);
  try {
    std::shared_ptr<DeviceBuffer> buffer(new DeviceBuffer, [this](DeviceBuffer* over) {
      if (over->before != nullptr) {
        late_.erase(over);
        opened_->local_events.give_back(over->before);
      }
      delete over;
    });
    std::optional<cuda::Current> current;
    if (opened_) current.emplace(opened_->context);
    buffer->memory = classify(bytes, driver, operation);
    Opened& device = open_for(buffer->memory, driver, operation);
    if (!current) current.emplace(device.context);
    check_stream(bytes.stream, operation);
    buffer->address = cuda::address_of(bytes.data);
    buffer->bytes = bytes.size;
    buffer->stream = bytes.stream;
    buffer->before = device.local_events.record_unless_at_rest(handle_of(bytes.stream));
    if (buffer->before != nullptr) late_.insert(buffer.get());
    return buffer;
  } catch (const cuda::CudaError& error) {
    throw error_of(error, operation, fmt::format("{} bytes at {:#x}: ", bytes.size, cuda::address_of(bytes.data)));
  }
}

void RankDevice::check_stream(CudaStream stream, const char* operation) const {
  if (!opened_) return;
  const char* captured = nullptr;
  try {
    const cuda::Current current(opened_->context);
    const cuda::Driver& driver = opened_->context.driver();
    cuda::CaptureStatus status = cuda::CaptureStatus::none;
    const cuda::Result result = driver.cuStreamIsCapturing(handle_of(stream), &status);
    if (result == cuda::Result::capture_implicit) {
      captured = "the default stream while another, for which it waits, is being captured into a graph";
    } else if (result != cuda::Result::success) {
      driver.fail(driver.cuStreamIsCapturing.name, result);
    } else if (status != cuda::CaptureStatus::none) {
      captured = "a stream that is being captured into a graph";
    }
  } catch (const cuda::CudaError& error) {
    throw error_of(error, operation);
  }
  if (captured == nullptr) return;
  throw refusal(Errc::invalid_argument, operation,
                fmt::format("got {}: wanted one that is not, since a graph holds nothing of what ranks tell each other",
                            captured));
}

cuda::PointerFacts RankDevice::facts_of(const cuda::Driver& driver, cuda::Address address) const {
  if (!opened_) return cuda::classify_anywhere(driver, address);
  const cuda::Current current(opened_->context);
  return cuda::classify(driver, address);
}

cuda::PointerFacts RankDevice::classify(const DeviceBytes& bytes, const cuda::Driver& driver,
                                        const char* operation) const {
  const cuda::PointerFacts memory = facts_of(driver, cuda::address_of(bytes.data));
  if (memory.kind == cuda::PointerFacts::Kind::host) {
    throw refusal(Errc::invalid_argument, operation,
                  fmt::format("got a device_span of {} bytes at {:#x}, which is memory of the host: wanted memory of a "
                              "device, or a std::span",
                              bytes.size, cuda::address_of(bytes.data)));
  }
  // Only of memory of cuMemAlloc is that where the allocation ends: of pieces mapped back to back (cuMemMap, the
  // expandable segments of torch) the driver tells the one.
  const cuda::Address end = memory.base + memory.bytes;
  if (memory.exportable && end - cuda::address_of(bytes.data) < bytes.size) {
    throw refusal(Errc::invalid_argument, operation,
                  fmt::format("got {} bytes at {:#x}, wanted at most {}: there the allocation ends", bytes.size,
                              cuda::address_of(bytes.data), end - cuda::address_of(bytes.data)));
  }
  return memory;
}

RankDevice::Opened& RankDevice::open_for(const cuda::PointerFacts& memory, const cuda::Driver& driver,
                                         const char* operation) {
  if (!opened_) opened_ = std::make_unique<Opened>(driver, memory.device >= 0 ? memory.device : first_device(driver));
  if (memory.kind == cuda::PointerFacts::Kind::device && memory.device != opened_->context.device()) {
    throw refusal(Errc::invalid_argument, operation,
                  fmt::format("got memory of device {}, wanted that of device {}: a rank uses one device",
                              memory.device, opened_->context.device()));
  }
  return *opened_;
}

std::shared_ptr<cuda::Staging::Block> RankDevice::stage(std::size_t bytes) {
  auto block = std::make_shared<cuda::Staging::Block>(opened_->staging.take(bytes));
  if (!block->pinned()) note_unpinned();
  return block;
}

std::unique_ptr<cuda::Pinned> RankDevice::pin(std::span<std::byte> memory) {
  auto pinned = std::make_unique<cuda::Pinned>(opened_->context, memory);
  if (!pinned->pinned()) note_unpinned();
  return pinned;
}

void RankDevice::note_unpinned() {
  if (std::exchange(noted_unpinned_, true)) return;
  log_.warn("copies between device and host keep this rank waiting: the driver pins no more memory of the host");
}

void RankDevice::read(const std::shared_ptr<DeviceBuffer>& buffer, std::span<std::byte> to, int peer, Ended ended,
                      std::size_t offset) {
  cuda::Copies::Copy copy;
  copy.to_host = to.data();
  copy.from = buffer->address + offset;
  copy.bytes = to.size();
  copy.peer = peer;
  start(buffer, std::move(copy), std::move(ended));
}

void RankDevice::write(const std::shared_ptr<DeviceBuffer>& buffer, std::span<const std::byte> from, int peer,
                       Ended ended, std::size_t offset) {
  cuda::Copies::Copy copy;
  copy.to = buffer->address + offset;
  copy.from_host = from.data();
  copy.bytes = from.size();
  copy.peer = peer;
  start(buffer, std::move(copy), std::move(ended));
}

void RankDevice::start(const std::shared_ptr<DeviceBuffer>& buffer, cuda::Copies::Copy copy, Ended ended) {
  // One after the other, also where the stream comes to the call between two looks: whoever orders by the last copy
  // orders by all.
  copy.ready = [this, buffer, before = std::weak_ptr(buffer->copy), also = std::move(copy.ready)] {
    const auto previous = before.lock();
    return (!previous || cuda::Copies::has_begun(*previous)) && (!also || also()) && is_due(*buffer);
  };
  copy.given_up = [buffer, also = std::move(copy.given_up)] { return buffer->given_up || (also && also()); };
  copy.ended = std::move(ended);
  buffer->copy = opened_->copies.start(std::move(copy));
}

bool RankDevice::came(const DeviceBuffer& buffer) const {
  const cuda::Current current(opened_->context);
  return opened_->local_events.done(buffer.before);
}

bool RankDevice::is_due(const DeviceBuffer& buffer) const {
  if (!opened_->local_events.done(buffer.before)) return false;
  check_there(buffer);
  return true;
}

void RankDevice::follow(const DeviceBuffer& buffer, cuda::StreamHandle stream) const {
  check_there(buffer);
  if (buffer.before == nullptr) return;
  const cuda::Driver& driver = opened_->context.driver();
  driver.must(driver.cuStreamWaitEvent, stream, buffer.before, 0U);
}

void RankDevice::check_there(const DeviceBuffer& buffer) const {
  const cuda::Driver& driver = opened_->context.driver();
  if (cuda::classify(driver, buffer.address).buffer_id == buffer.memory.buffer_id) return;
  throw cuda::CudaError(driver.cuPointerGetAttributes.name, cuda::Result::invalid_value, "CUDA_ERROR_INVALID_VALUE",
                        "the memory was freed before it was sent or received", {.peer = -1, .bytes = buffer.bytes});
}

bool RankDevice::order(const DeviceBuffer& buffer, CudaStream stream) const {
  try {
    return buffer.copy && opened_->copies.order(*buffer.copy, handle_of(stream));
  } catch (const cuda::CudaError& error) {
    throw error_of(error, "wait_on");
  }
}

// What collectives need.

void RankDevice::give_up_events(std::uint64_t communicator) noexcept {
  if (opened_) opened_->events.give_up(communicator);
}

// Memory of their own.

cuda::Device RankDevice::first_device(const cuda::Driver& driver) const {
  int count = 0;
  driver.must(driver.cuDeviceGetCount, &count);
  cuda::Device number = 0;
  driver.must(driver.cuDeviceGet, &number, local_rank % count);
  return number;
}

RankDevice::Allocation RankDevice::allocate(std::size_t bytes, const char* operation) {
  const cuda::Driver& driver = driver_for(operation);
  try {
    if (!opened_) opened_ = std::make_unique<Opened>(driver, first_device(driver));
    return take(bytes);
  } catch (const cuda::CudaError& error) {
    throw error_of(error, operation);
  }
}

RankDevice::Allocation RankDevice::take(std::size_t bytes) {
  const cuda::Driver& driver = opened_->context.driver();
  Allocation allocation;
  allocation.bytes = std::max<std::size_t>((bytes + kDriverBlock - 1) / kDriverBlock, 1) * kDriverBlock;
  const cuda::Current current(opened_->context);
  driver.must({.peer = -1, .bytes = allocation.bytes}, driver.cuMemAlloc, &allocation.address, allocation.bytes);
  return allocation;
}

RankDevice::Allocation RankDevice::find(const DeviceBytes& bytes, const char* operation) {
  const cuda::Driver& driver = driver_for(operation);
  try {
    const cuda::PointerFacts memory = classify(bytes, driver, operation);
    open_for(memory, driver, operation);
    return {memory.base, memory.bytes};
  } catch (const cuda::CudaError& error) {
    throw error_of(error, operation);
  }
}

bool RankDevice::is_released(const Allocation& allocation) noexcept {
  return opened_->exports.is_closed(allocation.address, allocation.bytes) && drained();
}

void RankDevice::free_parked() {
  for (std::size_t i = 0; i < parked_.size();) {
    const Allocation allocation = parked_[i];
    if (!is_released(allocation)) {
      ++i;
      continue;
    }
    parked_.erase(parked_.begin() + static_cast<std::ptrdiff_t>(i));
    opened_->exports.released(allocation.address);
    free(allocation);
  }
}

void RankDevice::free(const Allocation& allocation) {
  const cuda::Current current(opened_->context);
  const cuda::Driver& driver = opened_->context.driver();
  driver.must(driver.cuMemFree, allocation.address);
}

}  // namespace rondo::detail
