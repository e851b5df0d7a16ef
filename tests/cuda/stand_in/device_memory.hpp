#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "cuda/driver_types.hpp"
#include "tests/cuda/stand_in/shared_object.hpp"

namespace rondo::stand_in {

/// Where addresses were had by themselves: `reserved` before there is memory, `closed` while nothing may touch it.
enum class Kind { allocated, pooled, managed, imported, reserved, closed, mapped };
const char* name_of(Kind kind);

/// What travels as IpcMemoryHandle.
struct ExportedMemory {
  SharedObject::Handle object;
  cuda::Address base = 0;
  std::uint64_t bytes = 0;
  int device = 0;
};
static_assert(sizeof(ExportedMemory) <= sizeof(cuda::IpcMemoryHandle));

struct Range {
  Kind kind = Kind::allocated;
  std::uint64_t bytes = 0;
  int device = 0;
  std::uint64_t buffer_id = 0;
  SharedObject object{};
  // Of an imported one:
  ExportedMemory exported{};
  int opened = 0;
};

/// All device memory of this process, in one piece of its address space; where nothing is, nothing may be touched.
/// Addresses are used again at once: the lowest that are free. All of it under its mutex.
struct DeviceMemory {
  using Ranges = std::map<cuda::Address, Range>;
  static constexpr std::size_t kArena = std::size_t{64} << 30;
  static constexpr cuda::Address kOutOfMemory = 0;

  DeviceMemory();

  Ranges::iterator containing(cuda::Address address);
  /// Where it lies from now on.
  cuda::Address add(Range range);
  /// Nothing may touch the bytes any more; what is known of them stays.
  void close(Ranges::iterator range);
  void remove(Ranges::iterator range);

  std::mutex mutex;
  cuda::Address arena = 0;
  Ranges ranges;  ///< by where they begin here
  std::uint64_t buffers = 0;

 private:
  cuda::Address place_for(std::uint64_t bytes) const;
};

DeviceMemory& device_memory();

}  // namespace rondo::stand_in
