#include "tools/version.hpp"

#include "cuda/device.hpp"
#include "cuda/kernels/kernel_image.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/support/catch.hpp"

using namespace rondo;
using namespace rondo::testing;
using Catch::Matchers::EndsWith;

TEST_CASE("the version names the device that is found, and says whether there are kernels", "[cuda][version]") {
  const auto found = cuda::devices(driver_under_test());
  const std::string more = found.size() == 1 ? "" : " and " + std::to_string(found.size() - 1) + " more";
  const std::string compiler(cuda::kernel_compiler());
  const std::string kernels = cuda::kernel_image().empty() ? "no, built without nvcc)" : "yes, of " + compiler + ")";
  CHECK_THAT(detail::version_text(), EndsWith("; cuda: found: " + found.at(0).name + more + ", driver for " +
                                              driver_under_test().version() + "; kernels: " + kernels));
  if (is_stand_in()) CHECK(driver_under_test().version() == "CUDA 13.0");
}
