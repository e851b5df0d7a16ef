#pragma once

#include <span>

#include <rondo/allocate.hpp>

#include "bench/call_end.hpp"
#include "bench/device_elements.hpp"
#include "bench/measure.hpp"
#include "bench/settings.hpp"

namespace rondo::bench {

/// Memory for a collective's two buffers where the settings ask for a kind of it: such that all ranks reach each
/// other's, or a device's.
template <typename T>
class BufferMemory {
 public:
  /// `end`: of calls on devices.
  BufferMemory(Communicator& communicator, const Settings& settings, const Shape& shape, const CallEnd* end)
      : on_device_(settings.device) {
    const std::size_t count = shape.bytes / sizeof(T);
    if (settings.allocate) {
      first_shared_ = allocate<T>(communicator, count);
      second_shared_ = allocate<T>(communicator, count);
    }
    if (settings.device) {
      first_ = DeviceElements<T>(communicator, count, end->stream());
      second_ = DeviceElements<T>(communicator, count, end->stream());
    }
  }

  // Where the buffers lie for the host; empty: anywhere.
  std::span<T> first() { return on_device_ ? first_.host() : first_shared_.span(); }
  std::span<T> second() { return on_device_ ? second_.host() : second_shared_.span(); }

  /// What the host has written goes where it is used.
  void put() {
    first_.put();
    second_.put();
  }
  /// And back, to be checked.
  void get() const {
    first_.get();
    second_.get();
  }

  /// Calls `run(in, out)` with these buffers where they are used.
  template <typename Run>
  void with(std::span<const T> in, std::span<T> out, const Run& run) {
    if (on_device_)
      run(device_span<const T>(there(in)), there(out));
    else
      run(in, out);
  }

 private:
  template <typename U>
  device_span<U> there(std::span<U> here) {
    if (here.empty()) return {};
    const bool in_first =
        here.data() >= first_.host().data() && here.data() < first_.host().data() + first_.host().size();
    DeviceElements<T>& memory = in_first ? first_ : second_;
    return memory.given().subspan(static_cast<std::size_t>(here.data() - memory.host().data()), here.size());
  }

  bool on_device_;
  SharedBuffer<T> first_shared_, second_shared_;
  DeviceElements<T> first_, second_;
};

}  // namespace rondo::bench
