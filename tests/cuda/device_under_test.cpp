#include "tests/cuda/device_under_test.hpp"

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "cuda/kernels/kernel_image.hpp"

namespace rondo::testing {
namespace {

const cuda::DriverSearch& search() {
  ::setenv("RONDO_CUDA_LIBRARY", STAND_IN, 0);
  return cuda::driver();
}

}  // namespace

const cuda::Driver& driver_under_test() {
  if (!search().driver) throw std::runtime_error(search().library + ": " + search().reason);
  return *search().driver;
}

std::string why_no_driver() { return search().driver ? "" : search().reason; }

void* find_driver_function(const char* name) {
  void* const library = ::dlopen(search().library.c_str(), RTLD_NOW | RTLD_NOLOAD);
  return library == nullptr ? nullptr : ::dlsym(library, name);
}

bool is_stand_in() {
  driver_under_test();
  return find_driver_function("rondo_stand_in") != nullptr;
}

bool has_kernels() { return !cuda::kernel_image().empty(); }

DeviceMemory::DeviceMemory(const cuda::PrimaryContext& context, std::size_t bytes) : context_(context), bytes_(bytes) {
  const cuda::Current current(context);
  context.driver().must(cuda::CudaFacts{.peer = -1, .bytes = bytes}, context.driver().cuMemAlloc, &address_, bytes);
}

void DeviceMemory::free() {
  if (address_ == 0) return;
  const cuda::Current current(context_);
  context_.driver().cuMemFree(address_);
  address_ = 0;
}

cuda::PointerFacts DeviceMemory::facts() const {
  const cuda::Current current(context_);
  return cuda::classify(context_.driver(), address_);
}

void DeviceUnderTest::write(cuda::Address to, std::span<const std::byte> bytes) const {
  const cuda::Current current(context);
  driver().must(driver().cuMemcpyHtoDAsync, to, static_cast<const void*>(bytes.data()), bytes.size(), stream.handle());
}

void DeviceUnderTest::read(cuda::Address from, std::span<std::byte> bytes) const {
  const cuda::Current current(context);
  driver().must(driver().cuMemcpyDtoHAsync, static_cast<void*>(bytes.data()), from, bytes.size(), stream.handle());
}

void DeviceUnderTest::copy(cuda::Address to, cuda::Address from, std::size_t bytes) const {
  const cuda::Current current(context);
  driver().must(driver().cuMemcpyDtoDAsync, to, from, bytes, stream.handle());
}

void DeviceUnderTest::fill(cuda::Address to, std::size_t bytes, std::byte value) const {
  const std::vector<std::byte> content(bytes, value);
  write(to, content);
  stream.synchronize();
}

std::vector<std::byte> DeviceUnderTest::content(cuda::Address from, std::size_t bytes) const {
  std::vector<std::byte> content(bytes);
  read(from, content);
  stream.synchronize();
  return content;
}

bool DeviceUnderTest::holds(cuda::Address from, std::size_t bytes, std::byte value) const {
  const std::vector<std::byte> found = content(from, bytes);
  // By the library's quick way: tests hold megabytes against this.
  return found.empty() || (found[0] == value && std::memcmp(found.data(), found.data() + 1, bytes - 1) == 0);
}

std::span<const std::byte> test_image() {
  static const std::uint32_t only_the_stand_in_takes_it[] = {0xba55ed50};
  const auto image = cuda::kernel_image();
  return image.empty() ? std::as_bytes(std::span(only_the_stand_in_takes_it)) : image;
}

// A function of the host, which any driver runs on the stream.
HeldStream::HeldStream(const DeviceUnderTest& device, cuda::StreamHandle stream) : device_(device), stream_(stream) {
  using Work = void(void*);
  using Launch = cuda::Result(cuda::StreamHandle, Work*, void*);
  Work* const hold = [](void* let_go) { static_cast<const std::atomic<bool>*>(let_go)->wait(false); };
  const cuda::Current current(device.context);
  const auto result = driver_function<Launch>("cuLaunchHostFunc")(stream, hold, &let_go_);
  if (result != cuda::Result::success) device.driver().fail("cuLaunchHostFunc", result);
}

HeldStream::~HeldStream() {
  let_go();
  const cuda::Current current(device_.context);
  (void)device_.driver().cuStreamSynchronize(stream_);
}

void HeldStream::drain() {
  let_go();
  const cuda::Current current(device_.context);
  device_.driver().must(device_.driver().cuStreamSynchronize, stream_);
}

void HeldStream::let_go() {
  let_go_ = true;
  let_go_.notify_all();
}

}  // namespace rondo::testing
