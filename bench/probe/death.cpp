// What a process sees when another dies, by SIGKILL, while they have something of each other. Nothing here may wait for
// ever but the device: each answer is given as soon as it is known, and the process ends without giving up anything,
// which could hang.

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <optional>
#include <span>
#include <system_error>

#include <fmt/format.h>

#include "bench/probe/device_work.hpp"
#include "bench/probe/item.hpp"
#include "cuda/event_pool.hpp"

namespace rondo::bench {
namespace {

constexpr std::size_t kCopiedBytes = std::size_t{2} << 20;
constexpr unsigned char kOld = 0x5a;

/// Another process, rank 1 if nobody else is named.
class Victim {
 public:
  explicit Victim(const Part& part, int rank = 1)
      : life_(static_cast<int>(::syscall(SYS_pidfd_open, part.place(rank).process, 0))) {
    if (!life_) throw std::system_error(errno, std::generic_category(), "pidfd_open");
  }

  /// Returns when it is dead.
  void kill() const {
    ::syscall(SYS_pidfd_send_signal, life_.get(), SIGKILL, nullptr, 0);
    await_death(-1);
  }
  bool dead() const { return await_death(0); }
  bool await_death(int milliseconds) const {
    pollfd life{life_.get(), POLLIN, 0};
    return ::poll(&life, 1, milliseconds) > 0;
  }

 private:
  detail::Descriptor life_;
};

/// Asks until the answer is another than "not ready", or for so long that it never will be.
std::string await(const Part& part, const std::function<cuda::Result()>& ask) {
  const double patience = part.pick(10.0, 1.0);
  const auto begin = Part::Clock::now();
  cuda::Result result = ask();
  while (result == cuda::Result::not_ready && seconds_since(begin) < patience) {
    std::this_thread::yield();
    result = ask();
  }
  if (result == cuda::Result::not_ready) return fmt::format("hangs: not ready after {} s", patience);
  return fmt::format("{} after {:.3f} ms", name_of(part, result), seconds_since(begin) * 1e3);
}

/// A copy of the survivor's on another stream than the one that waits. What it takes is there before: allocating, as
/// freeing, may wait for all that is queued.
class OtherWork {
 public:
  explicit OtherWork(const Part& part) : part_(part), stream_(part.context), into_(part, kCopiedBytes) {}

  void report(cuda::Address from) const {
    const cuda::Driver& driver = part_.driver();
    const cuda::Result queued = driver.cuMemcpyDtoDAsync(into_.address(), from, kCopiedBytes, stream_.handle());
    part_.report(answered("another stream of the survivor",
                          queued != cuda::Result::success ? name_of(part_, queued) : await(part_, [&] {
                            return driver.cuStreamQuery(stream_.handle());
                          })));
  }

 private:
  const Part& part_;
  cuda::Stream stream_;
  DeviceBuffer into_;
};

/// Gives up nothing.
[[noreturn]] void leave() { ::_exit(0); }

/// A kernel of some seconds, in which this process is going to be killed.
void run_until_killed(const LongKernel& kernel, const Mark& before) {
  before.record();
  kernel.launch(5.0);
}

[[noreturn]] void await_death() {
  for (;;) ::pause();
}

/// What of the memory is as the owner wrote it.
std::string read(const Part& part, cuda::Address from) {
  // Pinned, for a copy to other memory would hang where its stream does; and never given up, which could hang, too.
  static const std::span<std::byte> content = [&] {
    void* data = nullptr;
    part.driver().must(part.driver().cuMemHostAlloc, &data, std::size_t{4096}, 0U);
    return std::span(static_cast<std::byte*>(data), 4096);
  }();
  const cuda::Result queued =
      part.driver().cuMemcpyDtoHAsync(content.data(), from, content.size(), part.stream.handle());
  if (queued != cuda::Result::success) return "refused: " + name_of(part, queued);
  const std::string ended = await(part, [&] { return part.driver().cuStreamQuery(part.stream.handle()); });
  std::size_t old = 0;
  for (const std::byte byte : content) old += byte == std::byte{kOld} ? 1 : 0;
  return fmt::format("{}; {} of {} bytes are what its owner wrote", ended, old, content.size());
}

/// Has an event behind a kernel of some seconds, for others to wait for.
void begin_event(const Part& part) {
  const Kernels kernels(part);
  const LongKernel kernel(part, kernels);
  cuda::EventPool pool(part.context, 1);
  part.place().event = pool.handles()[0];
  part.barrier();
  const Mark before(part);
  run_until_killed(kernel, before);
  pool.record(part.stream.handle());
  Board::wait_until([&] { return before.passed(); });
  part.barrier();
  await_death();
}

void survive_event(const Part& part) {
  const DeviceBuffer own(part, kCopiedBytes);
  const OtherWork other(part);
  part.barrier();
  const cuda::ImportedEvents events(part.context, std::span(&part.place(1).event, 1), 1);
  const cuda::EventTicket ticket{};
  part.barrier();
  events.wait(ticket, part.stream.handle());
  const Victim victim(part);
  victim.kill();
  part.report(answered("the stream that waits for its event",
                       await(part, [&] { return part.driver().cuStreamQuery(part.stream.handle()); })));
  part.report(answered("cuEventQuery of its event", await(part, [&] {
                         try {
                           return events.done(ticket) ? cuda::Result::success : cuda::Result::not_ready;
                         } catch (const cuda::CudaError& error) {
                           return error.code();
                         }
                       })));
  other.report(own.address());
  leave();
}

}  // namespace

void answer_death_event(const Part& part) {
  if (part.rank == 0) survive_event(part);
  begin_event(part);
}

// Rank 2 dies, rank 1 ends as programs do while its stream waits for that one's event, and rank 0 looks on.
void answer_death_exit(const Part& part) {
  if (part.rank == 2) begin_event(part);
  part.barrier();
  if (part.rank == 1) {
    const cuda::ImportedEvents events(part.context, std::span(&part.place(2).event, 1), 2);
    part.barrier();
    events.wait(cuda::EventTicket{}, part.stream.handle());
    part.place().count.store(1, std::memory_order_release);
    Board::wait_until([&] { return part.place(0).count.load(std::memory_order_acquire) == 1; });
    std::exit(0);
  }
  const Victim ends(part, 1);
  const Victim dies(part, 2);
  part.barrier();
  Board::wait_until([&] { return part.place(1).count.load(std::memory_order_acquire) == 1; });
  dies.kill();
  const auto begin = Part::Clock::now();
  part.place().count.store(1, std::memory_order_release);
  constexpr int kPatienceSeconds = 10;
  const bool ended = ends.await_death(kPatienceSeconds * 1000);
  part.report(answered("exit() while a stream waits for its event",
                       ended ? fmt::format("ends after {:.3f} ms", seconds_since(begin) * 1e3)
                             : fmt::format("hangs: not over after {} s", kPatienceSeconds)));
  ends.kill();
  leave();
}

void answer_death_memory(const Part& part) {
  std::optional<DeviceBuffer> exposed;
  if (part.rank == 1) {
    exposed.emplace(part, kCopiedBytes);
    exposed->fill(kOld);
    exposed->expose();
  }
  part.barrier();
  if (part.rank == 1) await_death();
  MappedBuffer mapped(part, 1);
  const OtherWork other(part);
  part.report(answered("its memory, before", read(part, mapped.address())));
  Victim(part).kill();
  part.report(answered("its memory, when it is dead", read(part, mapped.address())));
  other.report(mapped.address());
  part.report(answered("cuIpcCloseMemHandle", name_of(part, mapped.close())));
  const DeviceBuffer own(part, kCopiedBytes);
  own.fill(kOld);
  part.report(answered("new memory of the survivor", read(part, own.address())));
  leave();
}

void answer_death_kernel(const Part& part) {
  const Kernels kernels(part);
  if (part.rank == 1) {
    const LongKernel kernel(part, kernels);
    const Mark before(part);
    run_until_killed(kernel, before);
    Board::wait_until([&] { return before.passed(); });
    part.barrier();
    await_death();
  }
  part.barrier();
  Victim(part).kill();
  kernels.launch_small();
  part.report(answered("the survivor's next kernel",
                       await(part, [&] { return part.driver().cuStreamQuery(part.stream.handle()); })));
  const auto seconds = sample(part.pick(50, 3), [&] {
    kernels.launch_small();
    part.stream.synchronize();
  });
  part.report(measured("its kernels from then on, launch to end", 0, "us", microseconds(seconds)));
  leave();
}

void answer_free_mapped(const Part& part) {
  if (part.rank == 1) {
    DeviceBuffer exposed(part, kCopiedBytes);
    exposed.fill(kOld);
    exposed.expose();
    part.barrier();
    part.barrier();
    part.report(answered("cuMemFree by the owner", name_of(part, exposed.free())));
    part.place().count.store(1, std::memory_order_release);
    await_death();
  }
  part.barrier();
  MappedBuffer mapped(part, 1);
  const Victim owner(part);
  part.report(answered("its memory, before", read(part, mapped.address())));
  part.barrier();
  Board::wait_until([&] { return part.place(1).count.load(std::memory_order_acquire) == 1 || owner.dead(); });
  if (owner.dead()) part.report(answered("cuMemFree by the owner", "the owner did not survive it"));
  part.report(answered("its memory, when it is freed", read(part, mapped.address())));
  part.report(answered("cuIpcCloseMemHandle", name_of(part, mapped.close())));
  owner.kill();
  leave();
}

}  // namespace rondo::bench
