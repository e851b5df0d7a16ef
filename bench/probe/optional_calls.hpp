#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cuda/driver.hpp"

namespace rondo::bench {

/// Functions of the driver that only the probe asks about, and that a driver may lack or refuse.
struct OptionalCalls {
  /// Of this library, which can be loaded.
  explicit OptionalCalls(const std::string& library);

  std::string missing;  ///< what it lacks, by name

  cuda::Call<cuda::StreamHandle, cuda::Address, std::uint32_t, unsigned> cuStreamWaitValue32{"cuStreamWaitValue32_v2"};
  cuda::Call<cuda::StreamHandle, cuda::Address, std::uint32_t, unsigned> cuStreamWriteValue32{
      "cuStreamWriteValue32_v2"};
  cuda::Call<cuda::Address*, void*, unsigned> cuMemHostGetDevicePointer{"cuMemHostGetDevicePointer_v2"};
};

/// Until the word is as large, or larger.
inline constexpr unsigned kWaitGreaterOrEqual = 0;
inline constexpr unsigned kWriteBehindAll = 0;
inline constexpr unsigned kHostRegisterMapped = 2;

}  // namespace rondo::bench
