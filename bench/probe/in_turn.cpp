// What one process has the device do, and two in turn: whether it changes between them for that, which takes time.

#include <string>

#include "bench/probe/device_work.hpp"
#include "bench/probe/item.hpp"
#include "cuda/copies.hpp"
#include "cuda/staging.hpp"

namespace rondo::bench {
namespace {

class Turns {
 public:
  explicit Turns(const Part& part) : part_(part) {}

  /// `work` is queued; each time the host waits until the device has done it.
  template <typename Work>
  void measure(const std::string& what, std::size_t bytes, const Work& work) const {
    const auto done = [&] {
      work();
      part_.stream.synchronize();
    };
    part_.barrier();
    if (part_.rank == 0) report(what + ", alone", bytes, sample(part_.pick(25, 3), done));
    part_.barrier();
    const std::uint64_t begin = taken();
    part_.barrier();
    std::vector<double> seconds;
    for (int i = 0; i < part_.pick(25, 3); ++i) {
      const std::uint64_t turn = begin + static_cast<std::uint64_t>(i * part_.size + part_.rank);
      Board::wait_until([&] { return taken() == turn; });
      seconds.push_back(timed(done));
      part_.place().count.fetch_add(1, std::memory_order_acq_rel);
    }
    if (part_.rank == 0) report(what + ", two in turn", bytes, seconds);
  }

 private:
  std::uint64_t taken() const {
    std::uint64_t turns = 0;
    for (int rank = 0; rank < part_.size; ++rank) turns += part_.place(rank).count.load(std::memory_order_acquire);
    return turns;
  }
  void report(const std::string& what, std::size_t bytes, const std::vector<double>& seconds) const {
    part_.report(measured(what, bytes, "us", microseconds(seconds)));
  }

  const Part& part_;
};

}  // namespace

void answer_in_turn(const Part& part) {
  const cuda::Driver& driver = part.driver();
  const cuda::StreamHandle stream = part.stream.handle();
  const std::size_t most = part.pick(256 * kMiB, kMiB);
  const DeviceBuffer own(part, most), exposed(part, most);
  exposed.expose();
  const Kernels kernels(part);
  cuda::Staging staging(part.context);
  const auto block = staging.take(64 * kKiB);
  part.barrier();
  MappedBuffer other(part, 1 - part.rank);

  const Turns turns(part);
  turns.measure("a kernel", 0, [&] { kernels.launch_small(); });
  for (const std::size_t bytes : {std::size_t{8}, 16 * kKiB, 64 * kKiB}) {
    turns.measure("cuMemcpyDtoHAsync", bytes, [&] {
      driver.must(driver.cuMemcpyDtoHAsync, static_cast<void*>(block.data()), own.address(), bytes, stream);
    });
    turns.measure("cuMemcpyHtoDAsync", bytes, [&] {
      driver.must(driver.cuMemcpyHtoDAsync, own.address(), static_cast<const void*>(block.data()), bytes, stream);
    });
    turns.measure("from the host as rondo does", bytes,
                  [&] { cuda::queue_from_host(driver, {}, own.address(), block.data(), bytes, stream); });
  }
  for (const std::size_t bytes : {std::size_t{8}, kMiB, most}) {
    turns.measure("cuMemcpyDtoDAsync, mapped to own", bytes,
                  [&] { driver.must(driver.cuMemcpyDtoDAsync, own.address(), other.address(), bytes, stream); });
  }
  part.barrier();
  other.close();
  part.barrier();
}

}  // namespace rondo::bench
