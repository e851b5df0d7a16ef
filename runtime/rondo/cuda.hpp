#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include <rondo/communicator.hpp>
#include <rondo/device_span.hpp>
#include <rondo/element_type.hpp>
#include <rondo/export.hpp>

/// Memory of devices that other processes of this host may map. Any memory of a device can be sent and received; but
/// other processes map that of cudaMalloc (cuMemAlloc), and whoever frees memory which another process has mapped is
/// in for undefined behaviour, says CUDA. `buffer` and `registration` have it unmapped first.
namespace rondo::cuda {

/// Whether this process has a CUDA driver with at least one device. Looks once, with the first call.
RONDO_EXPORT bool available() noexcept;
/// Why not, in words; empty where it has.
RONDO_EXPORT std::string why_unavailable();

namespace detail {
RONDO_EXPORT std::shared_ptr<void> allocate(Communicator& communicator, std::size_t bytes);
RONDO_EXPORT std::shared_ptr<void> hold(Communicator& communicator, const void* data, std::size_t bytes);
/// Of what `allocate` gave, of which so many bytes are in use.
RONDO_EXPORT void copy_from(const std::shared_ptr<void>& memory, std::size_t bytes, std::span<const std::byte> host,
                            CudaStream stream);
RONDO_EXPORT void copy_to(const std::shared_ptr<void>& memory, std::size_t bytes, std::span<std::byte> host,
                          CudaStream stream);
}  // namespace detail

/// Elements on the device of this rank: that of the first memory of a device which it has given rondo, else the one
/// with the rank's number on this host (LOCAL_RANK), counted among those that it sees (CUDA_VISIBLE_DEVICES), from 0
/// again where there are more ranks. Not set to anything.
///
/// Its end waits 100 ms at the most for all to unmap it. What is not unmapped then is freed when the next buffer ends,
/// or when the next finds no memory left, which waits for that for 10 s at the most, or at the end of this rank's part
/// in the job; what cannot be freed even then the log names.
template <Element T>
class buffer {
 public:
  buffer() = default;
  /// Throws Errc::cuda; Errc::invalid_argument for more than any memory can hold. Rounded up to 2 MiB, which is what
  /// other processes map.
  buffer(Communicator& communicator, std::size_t count)
      : memory_(detail::allocate(communicator, rondo::detail::bytes_of(count, sizeof(T), "cuda::buffer"))),
        count_(count) {}

  T* data() const noexcept { return static_cast<T*>(memory_.get()); }
  std::size_t size() const noexcept { return memory_ ? count_ : 0; }  ///< 0 where it was moved from
  device_span<T> span(CudaStream stream = nullptr) const noexcept { return {data(), size(), stream}; }

  /// All elements from the host's memory, or to it, for those who have no cudaMemcpy at hand: after what was queued on
  /// the stream before, and blocks until it is done. Throws Errc::invalid_argument where there are not as many elements
  /// on the host, Errc::cuda where the driver refuses, Errc::timed_out after RONDO_TIMEOUT, Errc::peer_failed where the
  /// device may wait for a rank that has died.
  void copy_from(std::span<const T> host, CudaStream stream = nullptr) {
    detail::copy_from(memory_, size() * sizeof(T), std::as_bytes(host), stream);
  }
  void copy_to(std::span<T> host, CudaStream stream = nullptr) const {
    detail::copy_to(memory_, size() * sizeof(T), std::as_writable_bytes(host), stream);
  }

 private:
  std::shared_ptr<void> memory_;
  std::size_t count_ = 0;
};

/// For memory of others (cudaMalloc, a framework's): to be made before it is given rondo, and ended before it is freed.
/// Speaks of the whole allocation in which `data` lies.
class registration {
 public:
  registration() = default;
  /// Throws Errc::cuda; Errc::invalid_argument for memory of the host.
  template <typename T>
  registration(Communicator& communicator, device_span<T> data)
      : memory_(detail::hold(communicator, data.data(), data.size_bytes())) {}

 private:
  std::shared_ptr<void> memory_;
};

}  // namespace rondo::cuda
