#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <rondo/any_span.hpp>
#include <rondo/cuda.hpp>
#include <rondo/error.hpp>

#include "cuda/driver.hpp"
#include "cuda/pointer.hpp"
#include "runtime/access.hpp"
#include "runtime/naming.hpp"

namespace rondo::cuda {
namespace {

using Allocation = rondo::detail::RankDevice::Allocation;
using rondo::detail::Engine;
using rondo::detail::naming;
using rondo::detail::Progress;

/// Others may be stuck with it.
constexpr std::chrono::milliseconds kUnmapAfterDeath{500};
/// Nobody rings when a device has come to an end.
constexpr std::chrono::microseconds kLook{100};

/// Has it unmapped by all others, and the device come to the end of what may wait for them: to free anything waits for
/// all of it, without hearing of anybody's death. False: somebody does not answer, or the device waits for the dead.
bool release(Engine& engine, const Allocation& allocation) {
  Progress::Entry entry(engine.progress());
  engine.device_peers().retire(allocation);
  const auto closed = [&] { return engine.device_peers().is_closed(allocation); };
  const auto drained = [&] { return engine.device().drained(); };
  const auto since = engine.clock().now();
  // While it waits, somebody may die.
  const auto over = [&] {
    return (closed() && drained()) || engine.clock().now() - since >= engine.patience(kUnmapAfterDeath);
  };
  while (!over()) engine.progress().until(entry, over, engine.clock().now() + kLook);
  engine.device_peers().retired(allocation);
  if (closed() && (drained() || !engine.failure_seen())) return true;
  const std::chrono::duration<double> waited = engine.clock().now() - since;
  engine.log().warn("{} bytes of the device are not freed: somebody has not been done with them for {:.1f} s",
                    allocation.bytes, waited.count());
  return false;
}

/// What ends with the last who holds the memory.
struct Owner {
  std::shared_ptr<Engine> engine;
  int rank;  ///< whose it is, in the communicator that it was made with
  Allocation allocation;
  bool frees;

  void operator()(void*) const {
    if (engine->progress().forked()) return;
    try {
      if (!release(*engine, allocation) || !frees) return;
      Progress::Entry entry(engine->progress());
      engine->device().free(allocation);
    } catch (const std::exception& error) {
      engine->log().warn("memory of the device was not released: {}", error.what());
    }
  }
};

std::shared_ptr<void> owned(Owner owner) {
  void* const memory = reinterpret_cast<void*>(owner.allocation.address);
  return {memory, std::move(owner)};
}

/// `start(device, buffer, ended)` starts a copy of all that is in use; returns when it is over.
template <typename Start>
void copy(const char* operation, const std::shared_ptr<void>& memory, std::size_t bytes, std::size_t on_host,
          CudaStream stream, const Start& start) {
  const Error::Facts facts{-1, -1, operation, 0, 0, 0, {}};
  if (on_host != bytes) {
    throw Error(Errc::invalid_argument,
                fmt::format("got {} bytes of the host's memory, wanted {}, as many as the buffer has", on_host, bytes),
                facts);
  }
  if (bytes == 0) return;
  Engine& engine = *std::get_deleter<Owner>(memory)->engine;
  rondo::detail::DeviceBytes data;
  data.data = memory.get();
  data.size = bytes;
  data.stream = stream;
  Progress::Entry entry(engine.progress());
  bool over = false;
  std::exception_ptr failure;
  start(engine.device(), engine.device().begin(data, operation), [&](const std::exception_ptr& thrown) {
    failure = thrown;
    over = true;
  });
  engine.progress().until(
      entry, [&] { return over; }, std::nullopt);
  if (failure) throw rondo::detail::error_of(failure, {}, facts);
}

/// The rank whose buffer it is; -1: an empty one, nobody's.
int rank_of(const std::shared_ptr<void>& memory) { return memory ? std::get_deleter<Owner>(memory)->rank : -1; }

}  // namespace

bool available() noexcept { return driver().driver.has_value(); }
std::string why_unavailable() { return driver().reason; }

namespace detail {

std::shared_ptr<void> allocate(Communicator& communicator, std::size_t bytes) {
  constexpr const char* kOperation = "cuda::buffer";
  const int rank = CommunicatorAccess::group(communicator, kOperation).rank();
  const std::shared_ptr<Engine>& engine = CommunicatorAccess::engine(communicator);
  Progress::Entry entry(engine->progress());
  const auto made = naming(rank, -1, [&] { return engine->device().allocate(bytes, kOperation); });
  return owned({engine, rank, made, true});
}

std::shared_ptr<void> hold(Communicator& communicator, const void* data, std::size_t bytes) {
  constexpr const char* kOperation = "cuda::registration";
  const int rank = CommunicatorAccess::group(communicator, kOperation).rank();
  const std::shared_ptr<Engine>& engine = CommunicatorAccess::engine(communicator);
  Progress::Entry entry(engine->progress());
  rondo::detail::DeviceBytes memory;
  memory.data = data;
  memory.size = bytes;
  const auto found = naming(rank, -1, [&] { return engine->device().find(memory, kOperation); });
  return owned({engine, rank, found, false});
}

void copy_from(const std::shared_ptr<void>& memory, std::size_t bytes, std::span<const std::byte> host,
               CudaStream stream) {
  naming(rank_of(memory), -1, [&] {
    copy("cuda::buffer::copy_from", memory, bytes, host.size(), stream,
         [&](auto& device, const auto& buffer, const auto& ended) { device.write(buffer, host, -1, ended); });
  });
}

void copy_to(const std::shared_ptr<void>& memory, std::size_t bytes, std::span<std::byte> host, CudaStream stream) {
  naming(rank_of(memory), -1, [&] {
    copy("cuda::buffer::copy_to", memory, bytes, host.size(), stream,
         [&](auto& device, const auto& buffer, const auto& ended) { device.read(buffer, host, -1, ended); });
  });
}

}  // namespace detail

}  // namespace rondo::cuda

namespace rondo::detail {

bool is_on_device(const void* data) {
  const auto& driver = cuda::driver().driver;
  if (!driver) return false;
  try {
    return cuda::classify_anywhere(*driver, cuda::address_of(data)).kind != cuda::PointerFacts::Kind::host;
  } catch (const cuda::CudaError& error) {
    throw error_of(error, "any_span", fmt::format("{}: ", data));
  }
}

}  // namespace rondo::detail
