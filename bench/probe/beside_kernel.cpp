// Calls that wait for what is queued on the device keep whoever makes one from all else meanwhile, and for ever where
// what is queued waits for a process that has died.

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "bench/probe/device_work.hpp"
#include "bench/probe/item.hpp"
#include "cuda/kernels/kernel_image.hpp"

namespace rondo::bench {
namespace {

/// Makes one call after the other, each while a kernel runs that takes much longer.
class Beside {
 public:
  Beside(const Part& part, const LongKernel& kernel) : part_(part), kernel_(kernel), end_(part) {}

  void ask(const char* what, const std::function<cuda::Result()>& call) const {
    kernel_.launch(part_.pick(0.2, 0.05));
    end_.record();
    cuda::Result result{};
    const double seconds = timed([&] { result = call(); });
    const bool waited = end_.passed();
    part_.stream.synchronize();
    part_.report(answered(what, fmt::format("{} after {:.3f} ms, {}", name_of(part_, result), seconds * 1e3,
                                            waited ? "when the kernel had ended" : "while the kernel ran")));
  }

 private:
  const Part& part_;
  const LongKernel& kernel_;
  Mark end_;
};

void ask_all(const Part& part) {
  const Kernels kernels(part);
  const LongKernel kernel(part, kernels);
  const Beside beside(part, kernel);
  const cuda::Driver& driver = part.driver();
  constexpr std::size_t kBytes = std::size_t{2} << 20;

  cuda::Address memory = 0;
  beside.ask("cuMemAlloc", [&] { return driver.cuMemAlloc(&memory, kBytes); });
  beside.ask("cuMemFree", [&] { return driver.cuMemFree(memory); });
  cuda::Address mapped = 0;
  beside.ask("cuIpcOpenMemHandle",
             [&] { return driver.cuIpcOpenMemHandle(&mapped, part.place(1).memory, cuda::kIpcLazyPeerAccess); });
  beside.ask("cuIpcCloseMemHandle", [&] { return driver.cuIpcCloseMemHandle(mapped); });
  void* pinned = nullptr;
  beside.ask("cuMemHostAlloc", [&] { return driver.cuMemHostAlloc(&pinned, kBytes, 0U); });
  beside.ask("cuMemFreeHost", [&] { return driver.cuMemFreeHost(pinned); });
  std::vector<std::byte> host(kBytes);
  beside.ask("cuMemHostRegister", [&] { return driver.cuMemHostRegister(host.data(), host.size(), 0U); });
  beside.ask("cuMemHostUnregister", [&] { return driver.cuMemHostUnregister(host.data()); });
  cuda::ModuleHandle module = nullptr;
  const void* const image = cuda::kernel_image().data();
  beside.ask("cuModuleLoadData", [&] { return driver.cuModuleLoadData(&module, image); });
  beside.ask("cuModuleUnload", [&] { return driver.cuModuleUnload(module); });

  const DeviceBuffer buffer(part, kBytes);
  const cuda::Stream other(part.context);
  const std::size_t few = 64 * kKiB;
  beside.ask("cuMemcpyHtoDAsync behind it, not pinned",
             [&] { return driver.cuMemcpyHtoDAsync(buffer.address(), host.data(), few, part.stream.handle()); });
  beside.ask("cuMemcpyDtoHAsync behind it, not pinned",
             [&] { return driver.cuMemcpyDtoHAsync(host.data(), buffer.address(), few, part.stream.handle()); });
  beside.ask("cuMemcpyDtoHAsync elsewhere, not pinned",
             [&] { return driver.cuMemcpyDtoHAsync(host.data(), buffer.address(), few, other.handle()); });
}

}  // namespace

void answer_beside_kernel(const Part& part) {
  std::unique_ptr<DeviceBuffer> exposed;
  if (part.rank == 1) {
    exposed = std::make_unique<DeviceBuffer>(part, std::size_t{2} << 20);
    exposed->expose();
  }
  part.barrier();
  if (part.rank == 0) ask_all(part);
  part.barrier();
}

}  // namespace rondo::bench
