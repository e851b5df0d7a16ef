#include "transport/process_memory.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "tests/support/catch.hpp"

using namespace Catch::Matchers;
using namespace rondo::detail;

namespace {

const std::vector<std::byte> theirs(kTriedBytes);

bool read_at_once(std::span<std::byte> into) {
  std::memcpy(into.data(), theirs.data(), into.size());
  return true;
}

bool read_slowly(std::span<std::byte> into) {
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(20)) continue;
  return read_at_once(into);
}

}  // namespace

TEST_CASE("reading is a way for long messages where it is no slower than copying", "[transport][process_memory]") {
  CHECK(why_not_read(&read_at_once).empty());
  CHECK_THAT(why_not_read(&read_slowly),
             StartsWith("process_vm_readv takes ") && ContainsSubstring(" us for 65536 bytes, two copies "));
}

TEST_CASE("a core that was somebody else's for a time makes reading no slower", "[transport][process_memory]") {
  int trial = 0;
  const auto read = [&](std::span<std::byte> into) { return ++trial < 4 ? read_slowly(into) : read_at_once(into); };
  CHECK(why_not_read(read).empty());
}

TEST_CASE("reading that fails is none, and the system's word says why", "[transport][process_memory]") {
  const auto refused = [](std::span<std::byte>) {
    errno = EPERM;
    return false;
  };
  CHECK(why_not_read(refused) == "process_vm_readv: Operation not permitted");
}
