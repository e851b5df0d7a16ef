#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "bench/buffers.hpp"
#include "bench/peers/peer.hpp"
#include "cuda/context.hpp"
#include "cuda/device.hpp"

// Memory of devices for libraries that know the host's alone, as torch.distributed's Gloo backend has it: each call is
// between a copy on a stream to pinned memory of the host and one back, both waited for. The pinned memory is kept.

namespace rondo::bench {

/// A rank's device, in turn where ranks are more, and a stream for its copies. Current on this thread while it lives.
class StagingDevice {
 public:
  /// Throws cuda::CudaError, std::runtime_error where there is no driver.
  explicit StagingDevice(int rank) : context_(driver_, device_of(rank)), current_(context_), stream_(context_) {}

  void to_host(void* to, cuda::Address from, std::size_t bytes) const {
    if (bytes > 0) driver_.must(driver_.cuMemcpyDtoHAsync, to, from, bytes, stream_.handle());
  }
  void to_device(cuda::Address to, const void* from, std::size_t bytes) const {
    if (bytes > 0) driver_.must(driver_.cuMemcpyHtoDAsync, to, from, bytes, stream_.handle());
  }
  void wait() const { stream_.synchronize(); }

  static const cuda::Driver& driver() {
    check_device(true);
    return *cuda::driver().driver;
  }

 private:
  static cuda::Device device_of(int rank) {
    const auto all = cuda::devices(driver());
    return all[static_cast<std::size_t>(rank) % all.size()].device;
  }

  const cuda::Driver& driver_ = driver();
  cuda::PrimaryContext context_;
  cuda::Current current_;
  cuda::Stream stream_;
};

/// Elements on a device, and their place in pinned memory of the host.
template <typename T>
struct StagedSpan {
  std::span<T> host;
  cuda::Address there = 0;
  const StagingDevice* device = nullptr;

  /// Both return at once.
  void fetch(T* to) const { device->to_host(to, there, host.size_bytes()); }
  void store() const { device->to_device(there, host.data(), host.size_bytes()); }
};

/// As HostElements are: what messages are made of. The host's side is scratch between `put` and `get`.
template <typename T>
class StagedElements {
 public:
  /// Throws cuda::CudaError.
  StagedElements(const StagingDevice& device, std::size_t count) : memory_(std::make_unique<Memory>(device, count)) {}

  std::span<T> host() { return memory_->host(); }
  std::span<const T> host() const { return memory_->host(); }
  StagedSpan<T> given() const { return given(host()); }
  /// A part of `host()`.
  StagedSpan<T> given(std::span<const T> part) const {
    const auto skipped = static_cast<std::size_t>(part.data() - memory_->pinned) * sizeof(T);
    return {{memory_->pinned + skipped / sizeof(T), part.size()}, memory_->there + skipped, &memory_->device};
  }
  bool has(std::span<const T> part) const {
    return part.data() >= memory_->pinned && part.data() < memory_->pinned + memory_->count;
  }

  void put() const {
    given().store();
    memory_->device.wait();
    clear(memory_->host());  // so that what is not fetched is missed
  }
  void get() const {
    given().fetch(memory_->pinned);
    memory_->device.wait();
  }

 private:
  struct Memory {
    Memory(const StagingDevice& on, std::size_t wanted) : device(on), count(wanted) {
      if (count == 0) return;
      const cuda::Driver& driver = StagingDevice::driver();
      void* host = nullptr;
      driver.must(driver.cuMemHostAlloc, &host, count * sizeof(T), 0U);
      pinned = static_cast<T*>(host);
      const auto refused = driver.cuMemAlloc(&there, count * sizeof(T));
      if (refused == cuda::Result::success) return;
      driver.cuMemFreeHost(host);
      driver.fail(driver.cuMemAlloc.name, refused, {.bytes = count * sizeof(T)});
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory() {
      if (count == 0) return;
      StagingDevice::driver().cuMemFree(there);
      StagingDevice::driver().cuMemFreeHost(pinned);
    }
    std::span<T> host() const { return {pinned, count}; }

    const StagingDevice& device;
    std::size_t count;
    T* pinned = nullptr;
    cuda::Address there = 0;
  };

  std::unique_ptr<Memory> memory_;
};

/// Messages of StagedElements over a wire of the host's.
template <typename W>
class StagedWire {
 public:
  explicit StagedWire(W wire) : wire_(std::move(wire)) {}

  template <typename T>
  void send(StagedSpan<T> data, int to) {
    send_window(data, to, 1);
  }
  template <typename T>
  void recv(StagedSpan<T> data, int from) {
    recv_window(data, from, 1);
  }
  template <typename T>
  void send_window(StagedSpan<T> data, int to, int window) {
    for (int i = 0; i < window; ++i) data.fetch(data.host.data());  // each message is its own
    data.device->wait();
    wire_.send_window(data.host, to, window);
  }
  template <typename T>
  void recv_window(StagedSpan<T> data, int from, int window) {
    wire_.recv_window(data.host, from, window);
    data.store();
    data.device->wait();
  }
  void send(auto data, int to) { wire_.send(data, to); }
  void recv(auto data, int from) { wire_.recv(data, from); }

 private:
  W wire_;
};

/// As PeerExercise, on memory of a device. Sums are made in place, in what was fetched.
class StagedExercise final : public Exercise {
 public:
  template <typename MakeCall>
  StagedExercise(const StagingDevice& device, const Settings& settings, const Fabric& fabric, const Shape& shape,
                 MakeCall&& make_call)
      : in_place_(settings.operation == Operation::all_reduce || settings.operation == Operation::reduce),
        device_(device),
        first_(device, shape.bytes / sizeof(float)),
        second_(device, shape.bytes / sizeof(float)),
        buffers_(settings, fabric.rank(), fabric.size(), shape, first_.host(), second_.host()),
        call_(make_call(buffers_)) {}

  void prepare(Contents contents) override {
    buffers_.prepare(contents);
    first_.put();
    second_.put();
  }

  void run() override {
    const StagedSpan<float> in = staged(buffers_.input()), out = staged(buffers_.output());
    if (in.device != nullptr) in.fetch(in_place_ ? out.host.data() : in.host.data());
    device_.wait();
    call_();
    if (out.device != nullptr) out.store();
    device_.wait();
  }

  std::size_t wrong() const override {
    first_.get();
    second_.get();
    return buffers_.wrong();
  }

 private:
  StagedSpan<float> staged(std::span<const float> data) const {
    if (data.empty()) return {};
    return first_.has(data) ? first_.given(data) : second_.given(data);
  }

  bool in_place_;
  const StagingDevice& device_;
  StagedElements<float> first_, second_;
  Buffers<float> buffers_;
  PeerExercise::Call call_;
};

}  // namespace rondo::bench
