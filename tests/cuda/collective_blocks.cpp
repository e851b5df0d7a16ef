// Collectives on devices' memory: by counts, many at a time, in groups.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <rondo/rondo.hpp>

#include "tests/cuda/acts.hpp"
#include "tests/cuda/collective_buffers.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/support/ranks.hpp"

namespace rondo::testing {
namespace {

/// More at a time than there are events, so that each is used again as soon as it may be.
void many_at_a_time(Communicator& world, const Options& options) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kMany = 150;
  constexpr std::size_t kCount = 10;
  Both<std::int64_t> all(world, device, kMany * kCount, world.rank());
  std::vector<Work> works;
  for (std::size_t i = 0; i < kMany; ++i) {
    works.push_back(iall_reduce(world, all.device().subspan(i * kCount, kCount), sum, options));
  }
  wait_all(works);
  all_reduce(world, all.host(), sum);
  all.check("many at a time");
}

void many_direct(Communicator& world) { many_at_a_time(world, {Algorithm::sliced}); }

void many_by_messages(Communicator& world) { many_at_a_time(world, {Algorithm::ring}); }

}  // namespace

Acts collective_blocks() {
  return {
      {"many-direct", many_direct},
      {"many-by-messages", many_by_messages},
  };
}

}  // namespace rondo::testing
