#include <algorithm>
#include <array>

#include "bench/probe/device_work.hpp"
#include "bench/probe/item.hpp"
#include "cuda/staging.hpp"

namespace rondo::bench {
namespace {

/// Copied while the other computes.
std::vector<std::size_t> beside_sizes(const Part& part) {
  return part.pick(std::vector{64 * kKiB, 16 * kMiB, 256 * kMiB}, std::vector{64 * kKiB});
}

constexpr std::array kRoundTrips{std::size_t{8}, kKiB, 16 * kKiB, 64 * kKiB, 256 * kKiB};

class Copies {
 public:
  Copies(const Part& part, std::size_t most)
      : part_(part), into_(part, most), own_(part, most), other_(part, 1), most_(most) {}

  /// Many in a row.
  void rate(const char* what, cuda::Address from, std::size_t bytes) const {
    const std::size_t count = std::clamp<std::size_t>(most_ / bytes, 1, 64);
    const auto seconds = sample(part_.pick(15, 3), [&] {
      for (std::size_t i = 0; i < count; ++i) copy(from, bytes);
      part_.stream.synchronize();
    });
    part_.report(measured(what, bytes, "GB/s", gigabytes_per_second(seconds, static_cast<double>(bytes * count))));
  }
  /// One, and the host waits for it.
  void one(cuda::Address from, std::size_t bytes) const {
    copy(from, bytes);
    part_.stream.synchronize();
  }

  cuda::Address own() const { return own_.address(); }
  cuda::Address other() const { return other_.address(); }

 private:
  void copy(cuda::Address from, std::size_t bytes) const {
    part_.driver().must(part_.driver().cuMemcpyDtoDAsync, into_.address(), from, bytes, part_.stream.handle());
  }

  const Part& part_;
  DeviceBuffer into_;
  DeviceBuffer own_;
  MappedBuffer other_;
  std::size_t most_;
};

void report_rate(const Part& part, const char* what, std::size_t bytes, const std::vector<double>& seconds) {
  part.report(measured(what, bytes, "GB/s", gigabytes_per_second(seconds, static_cast<double>(bytes))));
}

void copy_all(const Part& part, std::size_t most) {
  const Copies copies(part, most);
  for (const std::size_t bytes : part.sizes(64 * kKiB, most)) {
    copies.rate("cuMemcpyDtoDAsync in a row, own to own", copies.own(), bytes);
    copies.rate("cuMemcpyDtoDAsync in a row, mapped to own", copies.other(), bytes);
  }
  for (const std::size_t bytes : beside_sizes(part)) {
    const auto work = [&] { copies.one(copies.other(), bytes); };
    report_rate(part, "one, mapped to own, the device idle", bytes, sample(part.pick(25, 3), work));
    report_rate(part, "one, mapped to own, the other computes", bytes, beside_neighbour(part, work));
  }
}

void round_trips(const Part& part) {
  const cuda::Driver& driver = part.driver();
  const cuda::StreamHandle stream = part.stream.handle();
  constexpr std::size_t kMost = kRoundTrips.back();
  const DeviceBuffer buffer(part, kMost);
  cuda::Staging staging(part.context);
  const auto block = staging.take(kMost);
  part.report(answered("memory of the host", block.pinned() ? "pinned" : "ordinary: none can be pinned"));
  for (const std::size_t bytes : kRoundTrips) {
    const auto work = [&] {
      driver.must(driver.cuMemcpyDtoHAsync, static_cast<void*>(block.data()), buffer.address(), bytes, stream);
      part.stream.synchronize();
      driver.must(driver.cuMemcpyHtoDAsync, buffer.address(), static_cast<const void*>(block.data()), bytes, stream);
      part.stream.synchronize();
    };
    part.report(measured("D2H and H2D, the device idle", bytes, "us", microseconds(sample(part.pick(200, 3), work))));
    part.report(measured("D2H and H2D, the other computes", bytes, "us", microseconds(beside_neighbour(part, work))));
  }
}

}  // namespace

void answer_copies(const Part& part) {
  const std::size_t most = part.pick(1024 * kMiB, kMiB);
  if (part.rank == 0) {
    part.barrier();
    copy_all(part, most);
    part.barrier();
    return;
  }
  const DeviceBuffer exposed(part, most);
  exposed.expose();
  const Kernels kernels(part);
  const LongKernel busy(part, kernels);
  part.barrier();
  for (std::size_t i = 0; i < beside_sizes(part).size(); ++i) busy_neighbour(part, busy);
  part.barrier();
}

void answer_round_trip(const Part& part) {
  if (part.rank == 0) {
    part.barrier();
    round_trips(part);
    return;
  }
  const Kernels kernels(part);
  const LongKernel busy(part, kernels);
  part.barrier();
  for (std::size_t i = 0; i < kRoundTrips.size(); ++i) busy_neighbour(part, busy);
}

}  // namespace rondo::bench
