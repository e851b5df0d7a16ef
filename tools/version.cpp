#include "tools/version.hpp"

#include <fmt/format.h>

#include "cuda/device.hpp"
#include "cuda/kernels/kernel_image.hpp"

namespace rondo::detail {
namespace {

std::string cuda_found() {
  const cuda::DriverSearch& search = cuda::driver();
  if (!search.driver) return "not found: " + search.reason;
  try {
    const auto devices = cuda::devices(*search.driver);
    const std::string count = devices.size() == 1 ? "" : fmt::format(" and {} more", devices.size() - 1);
    return fmt::format("found: {}{}, driver for {}", devices.at(0).name, count, search.driver->version());
  } catch (const cuda::CudaError& error) {
    return std::string("not found: ") + error.what();
  }
}

}  // namespace

std::string version_text() {
  return fmt::format(
      "rondo-run " RONDO_VERSION " (transports: " RONDO_TRANSPORTS "; cuda: {}; kernels: {})", cuda_found(),
      cuda::kernel_image().empty() ? "no, built without nvcc" : fmt::format("yes, of {}", cuda::kernel_compiler()));
}

}  // namespace rondo::detail
