#include "cuda/driver.hpp"

#include "tests/cuda/device_under_test.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::cuda;
using namespace rondo::testing;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a machine without the driver's library has no driver, and the reason names the library", "[cuda][driver]") {
  const DriverSearch search = load_driver("libno-such-driver.so.1");
  CHECK(!search.driver);
  CHECK(search.library == "libno-such-driver.so.1");
  CHECK_THAT(search.reason, ContainsSubstring("libno-such-driver.so.1: cannot open shared object file"));
}

TEST_CASE("a library that lacks functions is no driver, and the reason names each", "[cuda][driver]") {
  const DriverSearch search = load_driver(NO_DRIVER);
  CHECK(!search.driver);
  CHECK_THAT(search.reason, ContainsSubstring("it lacks cuDriverGetVersion, ") && ContainsSubstring("cuMemAlloc_v2") &&
                                !ContainsSubstring("cuInit"));
}

TEST_CASE("the driver that is named is found once, and initialised", "[cuda][driver]") {
  const Driver& driver = driver_under_test();
  CHECK(&driver == &*rondo::cuda::driver().driver);
  CHECK(rondo::cuda::driver().reason.empty());
  int count = 0;
  CHECK(driver.cuDeviceGetCount(&count) == Result::success);
  CHECK(count > 0);
}

TEST_CASE("an error says the call, the code, its name, the peer and the bytes", "[cuda][driver]") {
  const Driver& driver = driver_under_test();
  Device device = 0;
  try {
    driver.must(CudaFacts{.peer = 3, .bytes = 4096}, driver.cuDeviceGet, &device, 12345);
    FAIL("no error");
  } catch (const CudaError& error) {
    CHECK(error.call() == "cuDeviceGet");
    CHECK(error.code() == Result::invalid_device);
    CHECK(error.name() == "CUDA_ERROR_INVALID_DEVICE");
    CHECK(error.peer() == 3);
    CHECK(error.bytes() == 4096);
    CHECK(error.what() ==
          std::string("cuDeviceGet: got CUDA_ERROR_INVALID_DEVICE (101): invalid device ordinal, rank 3, 4096 bytes"));
  }
  CHECK_THROWS_WITH(driver.fail("cuX", Result{77777}), "cuX: got unknown error (77777)");
}
