#include <fmt/format.h>

#include <rondo/size.hpp>

#include "bench/device_figures.hpp"
#include "bench/probe/item.hpp"
#include "cuda/device.hpp"

namespace rondo::bench {

void answer_machine(const Part& part) {
  const cuda::Driver& driver = part.driver();
  const auto devices = cuda::devices(driver);
  std::size_t free = 0;
  std::size_t total = 0;
  driver.must(driver.cuMemGetInfo, &free, &total);
  part.report(answered("device", devices.at(0).name));
  part.report(answered("driver", driver_name(driver)));
  part.report(answered("memory", fmt::format("{:.1f} GiB, of which {:.1f} are free; {} multiprocessors",
                                             static_cast<double>(total) / (1 << 30),
                                             static_cast<double>(free) / (1 << 30), devices[0].multiprocessors)));
}

}  // namespace rondo::bench
