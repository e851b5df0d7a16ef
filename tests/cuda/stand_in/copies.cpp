#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/cuda/stand_in/entry_points.hpp"
#include "tests/cuda/stand_in/machine.hpp"
#include "tests/cuda/stand_in/memory.hpp"
#include "tests/cuda/stand_in/streams.hpp"

using namespace rondo::stand_in;

namespace {

/// Device memory is looked at twice: when the copy is queued, and when it is done.
struct Side {
  Address address;
  bool on_device;
};

bool check(const char* call, const Side& side, std::size_t bytes) {
  return !side.on_device || check_access(call, side.address, bytes, kAnyDevice);
}

std::atomic<int> under_way{0};
std::atomic<std::size_t> copied_to_host{0};

/// What is there at the beginning must be there at the end.
void copy(const char* call, const Side& to, const Side& from, std::size_t bytes) {
  check(call, to, bytes);
  check(call, from, bytes);
  ++under_way;
  std::this_thread::sleep_for(std::chrono::milliseconds(machine().copy_ms));
  check(call, to, bytes);
  check(call, from, bytes);
  std::memmove(reinterpret_cast<void*>(to.address), reinterpret_cast<const void*>(from.address), bytes);
  if (!to.on_device) copied_to_host += bytes;
  --under_way;
}

Result queue_copy(const char* call, Side to, Side from, std::size_t bytes, StreamHandle handle) {
  if (const Result result = entered_in_context(call); result != Result::success) return result;
  StreamState& stream = stream_of(handle);
  if (bytes == 0) return Result::success;
  if (!check(call, to, bytes) || !check(call, from, bytes)) return Result::invalid_value;
  stream.queue([=] { copy(call, to, from, bytes); });
  // As the driver does on the way to the host, and may do on the way from there: it comes back when all is there.
  const auto blocks = [&](const Side& side) { return !side.on_device && !is_pinned(side.address, bytes); };
  if (blocks(to) || blocks(from)) stream.synchronize();
  return Result::success;
}

}  // namespace

int rondo_stand_in_copies() { return under_way; }

std::size_t rondo_stand_in_copied_to_host() { return copied_to_host; }

Result cuMemcpyDtoDAsync_v2(Address to, Address from, std::size_t bytes, StreamHandle stream) {
  return queue_copy("cuMemcpyDtoDAsync", {to, true}, {from, true}, bytes, stream);
}

Result cuMemcpyHtoDAsync_v2(Address to, const void* from, std::size_t bytes, StreamHandle stream) {
  return queue_copy("cuMemcpyHtoDAsync", {to, true}, {reinterpret_cast<Address>(from), false}, bytes, stream);
}

Result cuMemcpyDtoHAsync_v2(void* to, Address from, std::size_t bytes, StreamHandle stream) {
  return queue_copy("cuMemcpyDtoHAsync", {reinterpret_cast<Address>(to), false}, {from, true}, bytes, stream);
}

/// Of rows that lie one behind the other.
Result cuMemcpy2DAsync_v2(const rondo::cuda::RowsCopy* copy, StreamHandle stream) {
  const auto side = [](const rondo::cuda::RowsSide& of) {
    const bool on_device = of.memory_type == rondo::cuda::kMemoryTypeDevice;
    return Side{(on_device ? of.device : of.host) + of.y * of.pitch + of.x, on_device};
  };
  if (copy->from.pitch != copy->row_bytes || copy->to.pitch != copy->row_bytes) return Result::not_supported;
  return queue_copy("cuMemcpy2DAsync", side(copy->to), side(copy->from), copy->row_bytes * copy->rows, stream);
}

Result cuMemsetD8Async(Address to, unsigned char value, std::size_t bytes, StreamHandle handle) {
  constexpr const char* kCall = "cuMemsetD8Async";
  if (const Result result = entered_in_context(kCall); result != Result::success) return result;
  StreamState& stream = stream_of(handle);
  if (bytes == 0) return Result::success;
  if (!check_access(kCall, to, bytes, kAnyDevice)) return Result::invalid_value;
  stream.queue([=] {
    check_access(kCall, to, bytes, kAnyDevice);
    std::memset(reinterpret_cast<void*>(to), value, bytes);
  });
  return Result::success;
}
