// Every call that rondo makes fails once: the error says which, and nothing is left behind (the stand-in ends a process
// that leaves something).

#include <string>
#include <vector>

#include "cuda/event_pool.hpp"
#include "cuda/region.hpp"
#include "tests/cuda/child.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/wire_text.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::cuda;
using namespace rondo::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

/// Memory and an event for the process that uses all there is.
class Offer : public DeviceUnderTest {
 public:
  Offer() {
    const Current current(context);
    region.base = memory.address();
    driver().must(driver().cuIpcGetMemHandle, &region.handle, memory.address());
    ticket = pool.record(stream.handle()).value();
  }

  Child used_by(std::vector<std::string> variables) const {
    variables.emplace_back("FAKECUDA_DEVICES=2");
    return Child({"everything", to_text(region), to_text(pool.handles()[ticket.index])}, variables);
  }
  /// What the other process says, and how it ended.
  std::pair<std::string, Child::Ended> used_with(const std::vector<std::string>& variables) const {
    Child child = used_by(variables);
    std::string said = child.hear();
    return {said, child.wait()};
  }

 private:
  DeviceMemory memory{context, 4 << 20};
  EventPool pool{context, 1};
  RegionDescription region{.id = 1, .base = 0, .bytes = 4 << 20, .handle = {}};
  EventTicket ticket;
};

}  // namespace

TEST_CASE("without a failure everything goes, and nothing is left", "[cuda][failure]") {
  const Offer offer;
  const auto [said, ended] = offer.used_with({});
  CHECK(said == "done");
  CHECK(ended.error.empty());
  CHECK(ended.status == 0);
}

TEST_CASE("every call that fails is an error that names it, and leaves nothing behind", "[cuda][failure][stand-in]") {
  if (!is_stand_in()) return;
  const Offer offer;
  for (const std::string call : {"cuInit",
                                 "cuDeviceGetCount",
                                 "cuDeviceGet",
                                 "cuDeviceGetName",
                                 "cuDeviceGetUuid",
                                 "cuDeviceGetAttribute",
                                 "cuDeviceCanAccessPeer",
                                 "cuDevicePrimaryCtxRetain",
                                 "cuCtxPushCurrent",
                                 "cuCtxGetStreamPriorityRange",
                                 "cuStreamCreateWithPriority",
                                 "cuStreamQuery",
                                 "cuStreamSynchronize",
                                 "cuStreamWaitEvent",
                                 "cuEventCreate",
                                 "cuEventRecord",
                                 "cuEventQuery",
                                 "cuIpcGetEventHandle",
                                 "cuIpcOpenEventHandle",
                                 "cuMemAlloc",
                                 "cuPointerGetAttributes",
                                 "cuIpcGetMemHandle",
                                 "cuIpcOpenMemHandle",
                                 "cuMemcpyDtoDAsync",
                                 "cuModuleLoadData",
                                 "cuModuleGetFunction",
                                 "cuLaunchKernel"}) {
    INFO(call);
    const auto [said, ended] = offer.used_with({"FAKECUDA_FAIL=" + call + ":1:2"});
    CHECK_THAT(said, StartsWith("caught " + call) && ContainsSubstring("got CUDA_ERROR_OUT_OF_MEMORY (2)"));
    CHECK(ended.error.empty());
    CHECK(ended.status == 0);
  }
}

TEST_CASE("a call that fails later leaves nothing of what came before", "[cuda][failure][stand-in]") {
  if (!is_stand_in()) return;
  const Offer offer;
  for (const std::string call : {"cuEventCreate:2", "cuIpcGetEventHandle:2", "cuModuleGetFunction:2",
                                 "cuModuleGetFunction:100", "cuCtxPushCurrent:2", "cuCtxPushCurrent:3"}) {
    INFO(call);
    const auto [said, ended] = offer.used_with({"FAKECUDA_FAIL=" + call + ":2"});
    CHECK_THAT(said, StartsWith("caught " + call.substr(0, call.find(':'))));
    CHECK(ended.error.empty());
    CHECK(ended.status == 0);
  }
}

TEST_CASE("a call that gives something up may fail without a word", "[cuda][failure][stand-in]") {
  if (!is_stand_in()) return;
  const Offer offer;
  // What the stand-in could not give up is left on purpose, and not for a sanitizer to find.
  const std::string unwatched = "ASAN_OPTIONS=detect_leaks=0";
  for (const std::string call : {"cuStreamDestroy", "cuEventDestroy", "cuIpcCloseMemHandle", "cuModuleUnload",
                                 "cuMemFreeHost", "cuDevicePrimaryCtxRelease", "cuCtxPopCurrent"}) {
    INFO(call);
    const auto [said, ended] = offer.used_with({"FAKECUDA_FAIL=" + call + ":1:4", "FAKECUDA_STRICT=0", unwatched});
    CHECK(said == "done");
    CHECK(ended.status == 0);
    // What was not given up is there to be found: the failure has come about.
    Child strict = offer.used_by({"FAKECUDA_FAIL=" + call + ":1:4", unwatched});
    const bool leaves_something = call != "cuDevicePrimaryCtxRelease" && call != "cuCtxPopCurrent";
    CHECK((strict.wait().status != 0) == leaves_something);
  }
}

TEST_CASE("a driver without a device is none", "[cuda][failure][stand-in]") {
  if (!is_stand_in()) return;
  const Offer offer;
  const auto [said, ended] = offer.used_with({"FAKECUDA_DEVICES=0"});
  CHECK(said == "caught cuInit: got CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected");
  CHECK(ended.status == 0);
}
