// Part of every test in this folder: where somebody has named a driver and there is none, the tests are skipped.

#include <cstdio>
#include <cstdlib>

#define CATCH_CONFIG_EXTERNAL_INTERFACES  // Catch2 2 declares its listeners with it
#include "tests/cuda/device_under_test.hpp"
#include "tests/support/catch.hpp"

namespace {

#if CATCH_VERSION_MAJOR < 3
using Listener = Catch::TestEventListenerBase;
#else
using Listener = Catch::EventListenerBase;
#endif

/// What Meson takes for "skipped".
constexpr int kSkipped = 77;

class DriverRequired : public Listener {
 public:
  using Listener::Listener;

  void testRunStarting(const Catch::TestRunInfo&) override {
    if (std::getenv("RONDO_CUDA_LIBRARY") == nullptr) {
      // Speaks of this machine's devices, not of the stand-in's.
      ::unsetenv("CUDA_VISIBLE_DEVICES");
      return;
    }
    const std::string why = rondo::testing::why_no_driver();
    if (why.empty()) return;
    std::printf("SKIP: no CUDA driver: %s\n", why.c_str());
    std::exit(kSkipped);
  }
};

}  // namespace

CATCH_REGISTER_LISTENER(DriverRequired)
