#include "bench/probe/device_work.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "cuda/kernels/kernel_image.hpp"

namespace rondo::bench {

using cuda::Driver;

std::string name_of(const Part& part, cuda::Result result) {
  const char* name = nullptr;
  if (part.driver().cuGetErrorName(result, &name) != cuda::Result::success || name == nullptr) name = "unknown";
  return fmt::format("{} ({})", name, static_cast<unsigned>(result));
}

DeviceBuffer::DeviceBuffer(const Part& part, std::size_t bytes) : part_(part), bytes_(bytes) {
  const Driver& driver = part.driver();
  driver.must(cuda::CudaFacts{.peer = -1, .bytes = bytes}, driver.cuMemAlloc, &address_, bytes);
  fill(0);
}

void DeviceBuffer::expose() const {
  part_.driver().must(part_.driver().cuIpcGetMemHandle, &part_.place().memory, address_);
}

void DeviceBuffer::fill(unsigned char value) const {
  part_.driver().must(part_.driver().cuMemsetD8Async, address_, value, bytes_, part_.stream.handle());
  part_.stream.synchronize();
}

cuda::Result DeviceBuffer::free() {
  if (address_ == 0) return cuda::Result::success;
  return part_.driver().cuMemFree(std::exchange(address_, 0));
}

MappedBuffer::MappedBuffer(const Part& part, int owner) : part_(part) {
  part.driver().must(cuda::CudaFacts{.peer = owner, .bytes = 0}, part.driver().cuIpcOpenMemHandle, &address_,
                     part.place(owner).memory, cuda::kIpcLazyPeerAccess);
}

cuda::Result MappedBuffer::close() {
  if (address_ == 0) return cuda::Result::success;
  return part_.driver().cuIpcCloseMemHandle(std::exchange(address_, 0));
}

Mark::Mark(const Part& part) : part_(part) { part.driver().must(part.driver().cuEventCreate, &event_, 0U); }

Mark::~Mark() { part_.driver().cuEventDestroy(event_); }

void Mark::record() const { part_.driver().must(part_.driver().cuEventRecord, event_, part_.stream.handle()); }

bool Mark::passed() const {
  const Driver& driver = part_.driver();
  const cuda::Result result = driver.cuEventQuery(event_);
  if (result != cuda::Result::success && result != cuda::Result::not_ready)
    driver.fail(driver.cuEventQuery.name, result);
  return result == cuda::Result::success;
}

double Mark::seconds_until(const Mark& later) const {
  float milliseconds = 0;
  part_.driver().must(part_.driver().cuEventElapsedTime, &milliseconds, event_, later.event_);
  return static_cast<double>(milliseconds) / 1e3;
}

Kernels::Kernels(const Part& part)
    : part_(part),
      reductions_(part.context, cuda::kernel_image()),
      sum_(reductions_.find("float", "sum").direct),
      small_(part, 4096) {
  part.driver().must(part.driver().cuDeviceGetAttribute, &multiprocessors_, cuda::DeviceAttribute::multiprocessor_count,
                     part.context.device());
}

void Kernels::launch(const cuda::DirectArguments& arguments, unsigned blocks, unsigned threads) const {
  part_.launch(sum_, arguments, blocks, threads);
}

void Kernels::launch_small() const {
  cuda::DirectArguments arguments{};
  arguments.inputs[0] = device_pointer(small_.address());
  arguments.outputs[0] = device_pointer(small_.address());
  arguments.input_count = 1;
  arguments.output_count = 1;
  arguments.count = small_.bytes() / sizeof(float);
  arguments.ranks = 1;
  launch(arguments, 1);
}

LongKernel::LongKernel(const Part& part, const Kernels& kernels)
    : kernels_(kernels), buffer_(part, part.pick(std::size_t{64} << 20, std::size_t{256} << 10)) {
  constexpr std::size_t kTrial = 16384;
  const auto trial = [&] {
    launch_for(kTrial);
    part.stream.synchronize();
  };
  trial();
  // The quickest is what it takes: a kernel that is said to be long must not end early because a trial was held up.
  const auto seconds = sample(5, trial);
  elements_per_second_ = static_cast<double>(kTrial) / *std::min_element(seconds.begin(), seconds.end());
}

void LongKernel::launch(double seconds) const {
  const std::size_t most = buffer_.bytes() / sizeof(float);
  auto left = static_cast<std::size_t>(std::ceil(elements_per_second_ * seconds));
  for (; left > 0; left -= std::min(left, most)) launch_for(std::min(left, most));
}

void LongKernel::launch_for(std::size_t elements) const {
  cuda::DirectArguments arguments{};
  for (const void*& input : arguments.inputs) input = device_pointer(buffer_.address());
  arguments.outputs[0] = device_pointer(buffer_.address());
  arguments.input_count = cuda::kMaxInputs;
  arguments.output_count = 1;
  arguments.count = elements;
  arguments.ranks = 1;
  kernels_.launch(arguments, 1, 1);
}

std::size_t free_memory(const Part& part) {
  std::size_t free = 0;
  std::size_t total = 0;
  part.driver().must(part.driver().cuMemGetInfo, &free, &total);
  return free;
}

std::vector<double> microseconds(std::vector<double> seconds, double parts) {
  for (double& value : seconds) value *= 1e6 / parts;
  return seconds;
}

std::vector<double> gigabytes_per_second(std::vector<double> seconds, double bytes) {
  for (double& value : seconds) value = bytes / value / 1e9;
  return seconds;
}

void busy_neighbour(const Part& part, const LongKernel& kernel) {
  part.barrier();
  kernel.launch(part.pick(0.5, 0.02));
  part.place().count.fetch_add(1, std::memory_order_acq_rel);
  part.stream.synchronize();
  part.place().count.fetch_add(1, std::memory_order_acq_rel);
  part.barrier();
}

}  // namespace rondo::bench
