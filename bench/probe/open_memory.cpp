#include <optional>

#include <fmt/format.h>

#include "bench/probe/device_work.hpp"
#include "bench/probe/item.hpp"

namespace rondo::bench {
namespace {

void open_and_close(const Part& part, std::size_t bytes) {
  std::vector<double> opened;
  std::vector<double> closed;
  for (int i = 0; i < part.pick(10, 3); ++i) {
    std::optional<MappedBuffer> mapped;
    opened.push_back(timed([&] { mapped.emplace(part, 1); }));
    closed.push_back(timed([&] { mapped->close(); }));
  }
  part.report(measured("cuIpcOpenMemHandle", bytes, "us", microseconds(opened)));
  part.report(measured("cuIpcCloseMemHandle", bytes, "us", microseconds(closed)));
}

void skip(const Part& part, std::size_t bytes, std::size_t free) {
  Figure skipped = answered("cuIpcOpenMemHandle", fmt::format("skipped: {} MiB are free", free / kMiB));
  skipped.bytes = bytes;
  part.report(skipped);
}

}  // namespace

void answer_open_memory(const Part& part) {
  for (const std::size_t mebibytes : part.pick(std::vector<std::size_t>{2, 1 << 10, 32 << 10},
                                               std::vector<std::size_t>{2, 8, std::size_t{1} << 20})) {
    const std::size_t bytes = mebibytes * kMiB;
    std::optional<DeviceBuffer> owned;
    if (part.rank == 1) {
      const std::size_t free = free_memory(part);
      if (bytes < free) {
        owned.emplace(part, bytes);
        owned->expose();
      } else {
        skip(part, bytes, free);
      }
      part.place().count.store(owned ? 1 : 0, std::memory_order_release);
    }
    part.barrier();
    if (part.rank == 0 && part.place(1).count.load(std::memory_order_acquire) == 1) open_and_close(part, bytes);
    part.barrier();
  }
}

}  // namespace rondo::bench
