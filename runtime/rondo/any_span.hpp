#pragma once

#include <cstddef>
#include <span>

#include <rondo/device_span.hpp>
#include <rondo/element_type.hpp>
#include <rondo/export.hpp>

namespace rondo {

namespace detail {
/// Whether CUDA's driver takes this for memory of a device. Throws Errc::cuda where the driver refuses to say.
RONDO_EXPORT bool is_on_device(const void* data);
}  // namespace detail

/// Elements in the host's memory or in a device's: whose it is, CUDA's driver is asked when the object is made. For
/// code that is handed a pointer and a count and does not know, as of a framework's tensor. Goes where a `std::span` or
/// a `device_span` goes; to a collective, as input and output both, which must then lie on the same side.
///
///     world.send(rondo::any_span(pointer, count, stream), 1);
///
/// Of no elements nobody knows whose they would be. In a collective by counts a rank may have none: then all ranks give
/// objects of this kind, or all say whose they are, and those who have some tell the others.
///
/// Memory that both sides reach (managed) counts as a device's, memory of the host that is pinned as the host's. Where
/// there is no driver, or no context of the process is in use yet, all memory is the host's.
template <typename T>
class any_span {
 public:
  any_span() = default;
  /// Throws Errc::cuda. The stream is that of `device_span`, and says nothing about the host's memory.
  any_span(T* data, std::size_t count, CudaStream stream = nullptr)
      : span_(data, count, stream), on_device_(count > 0 && detail::is_on_device(data)) {}

  bool on_device() const noexcept { return on_device_; }
  T* data() const noexcept { return span_.data(); }
  std::size_t size() const noexcept { return span_.size(); }
  std::size_t size_bytes() const noexcept { return span_.size_bytes(); }
  CudaStream stream() const noexcept { return span_.stream(); }

  /// As what it has turned out to be.
  device_span<T> device() const noexcept { return span_; }
  std::span<T> host() const noexcept { return {data(), size()}; }

 private:
  device_span<T> span_;
  bool on_device_ = false;
};

}  // namespace rondo
