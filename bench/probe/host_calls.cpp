#include "bench/probe/device_work.hpp"
#include "bench/probe/item.hpp"
#include "cuda/copies.hpp"
#include "cuda/event_pool.hpp"
#include "cuda/pointer.hpp"

namespace rondo::bench {
namespace {

/// Few enough for a stream to take them without a wait.
constexpr int kCalls = 64;

template <typename Call>
void time_calls(const Part& part, const char* what, const Call& call) {
  std::vector<double> seconds;
  for (int i = -1; i < part.pick(50, 3); ++i) {
    const double taken = timed([&] {
      for (int n = 0; n < kCalls; ++n) call();
    });
    part.stream.synchronize();
    if (i >= 0) seconds.push_back(taken);
  }
  part.report(measured(what, 0, "us", microseconds(seconds, kCalls)));
}

void call_all(const Part& part, cuda::EventPool& own, const cuda::ImportedEvents& other) {
  const cuda::Driver& driver = part.driver();
  const cuda::StreamHandle stream = part.stream.handle();
  const cuda::EventTicket ticket{};
  const DeviceBuffer buffer(part, 1 << 20);
  const Kernels kernels(part);
  cuda::LocalEvents events(part.context);
  part.stream.synchronize();
  time_calls(part, "cuStreamGetFlags and cuStreamQuery, of a stream at rest", [&] {
    const cuda::Current current(part.context);
    events.give_back(events.record_unless_at_rest(stream));
  });
  const Mark mark(part);
  mark.record();
  cuda::EventTicket taken{.index = 0, .generation = 1};
  time_calls(part, "cuEventRecord, of an interprocess event", [&] {
    if (own.give_back(taken)) taken = own.record(stream).value();
  });
  time_calls(part, "cuEventQuery, of an own event that is done", [&] { mark.passed(); });
  time_calls(part, "cuEventQuery, of another's that is done", [&] { other.done(ticket); });
  time_calls(part, "cuStreamWaitEvent, for another's that is done", [&] { other.wait(ticket, stream); });
  time_calls(part, "cuLaunchKernel", [&] { kernels.launch_small(); });
  time_calls(part, "cuMemcpyDtoDAsync, 64 bytes", [&] {
    driver.must(driver.cuMemcpyDtoDAsync, buffer.address(), buffer.address() + 4096, std::size_t{64}, stream);
  });
  time_calls(part, "cuCtxPushCurrent, cuCtxPopCurrent, capture mode and back",
             [&] { const cuda::Current current(part.context); });
  time_calls(part, "cuPointerGetAttributes, as for each message", [&] { cuda::classify(driver, buffer.address()); });
}

}  // namespace

void answer_host_calls(const Part& part) {
  cuda::EventPool pool(part.context, 1);
  pool.record(part.stream.handle());
  part.stream.synchronize();
  part.place().event = pool.handles()[0];
  part.barrier();
  if (part.rank == 0) {
    const cuda::ImportedEvents other(part.context, std::span(&part.place(1).event, 1), 1);
    call_all(part, pool, other);
  }
  part.barrier();
}

}  // namespace rondo::bench
