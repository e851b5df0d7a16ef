#include <chrono>

#include <rondo/cuda.hpp>

#include "cuda/driver.hpp"
#include "runtime/access.hpp"

namespace rondo::cuda {
namespace {

using Allocation = rondo::detail::RankDevice::Allocation;
using rondo::detail::Engine;
using rondo::detail::Progress;

constexpr std::chrono::milliseconds kUnmapWithin{10'000};
/// Others may be stuck with it.
constexpr std::chrono::milliseconds kUnmapWithinAfterFailure{500};

/// Has it unmapped by all others. False: somebody does not answer, or the device itself is stuck: to free anything
/// would wait for it.
bool release(Engine& engine, const Allocation& allocation) {
  Progress::Entry entry(engine.progress());
  engine.device_peers().retire(allocation);
  const auto closed = [&] {
    return engine.device_peers().is_closed(allocation) && !(engine.failure_seen() && engine.device().busy());
  };
  const auto patience = engine.failure_seen() ? kUnmapWithinAfterFailure : kUnmapWithin;
  if (engine.progress().until(entry, closed, engine.clock().now() + patience)) return true;
  engine.log().warn("{} bytes of the device are not freed: somebody has not been done with them for {} ms",
                    allocation.bytes, patience.count());
  return false;
}

std::shared_ptr<void> owner_of(const std::shared_ptr<Engine>& engine, const Allocation& allocation, bool freed) {
  const auto end = [engine, allocation, freed](void*) {
    if (engine->progress().forked()) return;
    try {
      if (!release(*engine, allocation) || !freed) return;
      Progress::Entry entry(engine->progress());
      engine->device().free(allocation);
    } catch (const std::exception& error) {
      engine->log().warn("memory of the device was not released: {}", error.what());
    }
  };
  return {reinterpret_cast<void*>(allocation.address), end};
}

}  // namespace

bool available() noexcept { return driver().driver.has_value(); }
std::string why_unavailable() { return driver().reason; }

namespace detail {

std::shared_ptr<void> allocate(Communicator& communicator, std::size_t bytes) {
  CommunicatorAccess::group(communicator, "cuda::buffer");
  const std::shared_ptr<Engine>& engine = CommunicatorAccess::engine(communicator);
  Progress::Entry entry(engine->progress());
  return owner_of(engine, engine->device().allocate(bytes), true);
}

std::shared_ptr<void> hold(Communicator& communicator, const void* data, std::size_t bytes) {
  CommunicatorAccess::group(communicator, "cuda::registration");
  const std::shared_ptr<Engine>& engine = CommunicatorAccess::engine(communicator);
  Progress::Entry entry(engine->progress());
  rondo::detail::DeviceBytes memory;
  memory.data = data;
  memory.size = bytes;
  return owner_of(engine, engine->device().find(memory, "cuda::registration"), false);
}

}  // namespace detail

}  // namespace rondo::cuda
