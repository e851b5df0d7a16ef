#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <stdexcept>

#include <rondo/rondo.hpp>

#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"
#include "transport/descriptor.hpp"

using namespace rondo;
using namespace rondo::testing;

namespace {

constexpr std::size_t kWindow = std::size_t{8} << 20;
constexpr std::size_t kBytes = (std::size_t{2} << 30) + 8;

/// More than 2 GiB that take 16 MiB: every window of the first 2 GiB is the same memory, only the end is its own.
class Huge {
 public:
  Huge() : memory_(::memfd_create("huge", MFD_CLOEXEC)) {
    if (!memory_ || ::ftruncate(memory_.get(), 2 * kWindow) != 0) throw std::runtime_error("no memory file");
    void* const place =
        ::mmap(nullptr, kBytes + kWindow, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) throw std::runtime_error("no addresses");
    begin_ = static_cast<std::byte*>(place);
    for (std::size_t at = 0; at < kBytes; at += kWindow) {
      const off_t offset = at + kWindow <= kBytes ? 0 : static_cast<off_t>(kWindow);
      if (::mmap(begin_ + at, kWindow, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory_.get(), offset) ==
          MAP_FAILED) {
        throw std::runtime_error("cannot map a window");
      }
    }
  }
  ~Huge() { ::munmap(begin_, kBytes + kWindow); }
  Huge(const Huge&) = delete;
  Huge& operator=(const Huge&) = delete;

  std::span<std::byte> all() { return {begin_, kBytes}; }
  std::span<std::byte> window() { return {begin_, kWindow}; }
  std::span<std::byte> end() { return {begin_ + kBytes - 8, 8}; }
  /// Everything has this value, but for the last 8 bytes.
  void fill(int value, int at_end) {
    std::ranges::fill(window(), static_cast<std::byte>(value));
    std::ranges::fill(end(), static_cast<std::byte>(at_end));
  }
  bool filled(int value, int at_end) {
    const auto is = [](std::span<std::byte> part, int wanted) {
      return std::ranges::all_of(part, [&](std::byte got) { return got == static_cast<std::byte>(wanted); });
    };
    return is(window(), value) && is(end(), at_end);
  }

 private:
  detail::Descriptor memory_;
  std::byte* begin_ = nullptr;
};

}  // namespace

TEST_CASE("a message of more than 2 GiB arrives whole", "[runtime][p2p]") {
  run_ranks(2, [](Communicator& world) {
    Huge data;
    if (world.rank() == 0) {
      data.fill(3, 4);
      world.send(data.all(), 1);
    } else {
      const Status status = world.recv(data.all(), 0);
      require(status.bytes == kBytes, "wrong length");
      require(data.filled(3, 4), "wrong data");
    }
  });
}

TEST_CASE("a collective on more than 2 GiB reaches every byte", "[runtime][collectives]") {
  run_ranks(2, [](Communicator& world) {
    Huge data;
    data.fill(world.rank() == 1 ? 5 : 0, world.rank() == 1 ? 6 : 0);
    broadcast(world, data.all(), 1);
    require(data.filled(5, 6), "wrong data");
  });
}
