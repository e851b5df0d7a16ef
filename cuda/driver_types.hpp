#pragma once

#include <cstddef>
#include <cstdint>

/// What the functions of the CUDA driver take and return, as far as rondo uses them: so that the library is the same
/// whether or not a toolkit was there when it was built. Where there is one, tests/cuda/declarations.cpp compares all
/// of this with its <cuda.h>.
namespace rondo::cuda {

/// CUresult. Any other number may come too.
enum class Result : unsigned {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  deinitialized = 4,
  no_device = 100,
  invalid_device = 101,
  invalid_image = 200,
  invalid_context = 201,
  map_failed = 205,
  already_mapped = 208,
  no_binary_for_gpu = 209,
  peer_access_unsupported = 217,
  invalid_handle = 400,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  not_supported = 801,
  capture_unsupported = 900,
  capture_invalidated = 901,
  capture_implicit = 906,
};

using Device = int;
/// CUdeviceptr: an address in device memory, which the host must not follow.
using Address = unsigned long long;

/// Where this process sees it.
inline Address address_of(const void* data) noexcept { return reinterpret_cast<std::uintptr_t>(data); }

using ContextHandle = struct ContextState*;
using StreamHandle = struct StreamState*;
using EventHandle = struct EventState*;
using ModuleHandle = struct ModuleState*;
using FunctionHandle = struct FunctionState*;

/// Names a device in every process of a host, whatever number it has there.
struct Uuid {
  unsigned char bytes[16];

  friend bool operator==(const Uuid&, const Uuid&) = default;
};

/// What another process opens an allocation by. Bytes that mean something to the driver only.
struct IpcMemoryHandle {
  unsigned char bytes[64];
};

struct IpcEventHandle {
  unsigned char bytes[64];
};

/// CUDA_MEMCPY2D: one side of a copy of rows, and the copy.
struct RowsSide {
  std::size_t x = 0, y = 0;
  unsigned memory_type = 0;
  Address host = 0;  ///< a pointer, at which the host may look
  Address device = 0;
  void* array = nullptr;
  std::size_t pitch = 0;  ///< from one row to the next
};
struct RowsCopy {
  RowsSide from, to;
  std::size_t row_bytes = 0;
  std::size_t rows = 0;
};

enum class DeviceAttribute : int { multiprocessor_count = 16 };
enum class PeerAttribute : int { native_atomics = 3 };

enum class PointerAttribute : int {
  memory_type = 2,
  buffer_id = 7,
  is_managed = 8,
  device_ordinal = 9,
  is_legacy_ipc_capable = 10,
  range_start = 11,
  range_bytes = 12,
  memory_pool = 17,
};

/// Whether what is queued on a stream becomes part of a graph instead of being done.
enum class CaptureStatus : int { none = 0, active = 1, invalidated = 2 };

/// Which captures keep a thread from calls that a graph would not hold: those of all threads, its own, none.
enum class CaptureMode : int { global = 0, own = 1, relaxed = 2 };

inline constexpr unsigned kMemoryTypeHost = 1;
inline constexpr unsigned kMemoryTypeDevice = 2;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kEventInterprocess = 4;
inline constexpr unsigned kIpcLazyPeerAccess = 1;

}  // namespace rondo::cuda
