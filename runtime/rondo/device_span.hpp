#pragma once

#include <cstddef>
#include <type_traits>

#include <rondo/element_type.hpp>

namespace rondo {

/// A stream of CUDA, as its runtime or its driver gives it (theirs converts to this one); nullptr: the default stream.
/// No header of CUDA is needed.
using CudaStream = void*;

/// Elements in the memory of a device, and the stream that they are used on: what a message or collective reads has
/// been written when all that was queued there before the call is done, and what it writes is read by what is queued
/// there after `wait` or `wait_on`. (With another stream, order them by an event of your own.)
///
///     rondo::device_span<float> gradients(pointer, count, stream);
///     world.send(gradients, 1);
///
/// The host never waits for the stream behind the caller's back, but where memory is freed (`cuda::buffer`). While the
/// stream is being captured into a graph the call throws Errc::invalid_argument, before anything is queued there.
template <typename T>
class device_span {
  static_assert(Element<std::remove_const_t<T>>, "rondo sends trivially copyable types that are no pointers");

 public:
  device_span() = default;
  device_span(T* data, std::size_t count, CudaStream stream = nullptr) noexcept
      : data_(data), count_(count), stream_(stream) {}
  /// What may be written may be read.
  operator device_span<const T>() const noexcept requires(!std::is_const_v<T>) { return {data_, count_, stream_}; }

  /// An address in the device's memory, which the host must not follow.
  T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return count_; }
  std::size_t size_bytes() const noexcept { return count_ * sizeof(T); }
  CudaStream stream() const noexcept { return stream_; }
  device_span subspan(std::size_t begin, std::size_t count) const noexcept { return {data_ + begin, count, stream_}; }

 private:
  T* data_ = nullptr;
  std::size_t count_ = 0;
  CudaStream stream_ = nullptr;
};

namespace detail {

/// The same without its type.
struct DeviceBytes {
  const void* data = nullptr;
  std::size_t size = 0;
  CudaStream stream = nullptr;

  DeviceBytes() = default;
  template <typename T>
  explicit DeviceBytes(device_span<T> span) noexcept
      : data(span.data()), size(span.size_bytes()), stream(span.stream()) {}
};

}  // namespace detail

}  // namespace rondo
