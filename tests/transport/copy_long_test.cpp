#include "transport/copy_long.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/skipped.hpp"

using namespace rondo::detail;

namespace {

/// Between margins that stay as they are, wherever source and target begin.
template <typename Copy>
void check_everywhere(const Copy& copy) {
  constexpr std::size_t kMargin = 1100;
  constexpr std::byte kUntouched{0xee};
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{5000}}) {
    std::vector<std::byte> from(bytes + kMargin);
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 % 199);
    for (std::size_t source = 0; source < 70; source += 3) {
      // Close behind the source, or not, but for whole pages.
      for (std::size_t target = 0; target < 1070; target += target == 70 ? 930 : 1) {
        std::vector<std::byte> to(bytes + kMargin, kUntouched);
        copy(std::span<const std::byte>(from).subspan(source, bytes), to.data() + target);
        const auto begin = to.begin() + static_cast<std::ptrdiff_t>(target);
        const auto end = begin + static_cast<std::ptrdiff_t>(bytes);
        const bool right = std::equal(begin, end, from.begin() + static_cast<std::ptrdiff_t>(source));
        const bool outside = std::count(to.begin(), begin, kUntouched) == begin - to.begin() &&
                             std::count(end, to.end(), kUntouched) == to.end() - end;
        if (!right || !outside) FAIL(bytes << " bytes from " << source << " to " << target);
      }
    }
  }
}

}  // namespace

TEST_CASE("long copies have every byte, and touch no other", "[transport][copy]") {
  check_everywhere([](std::span<const std::byte> from, std::byte* to) { copy_long(from, to); });
}

TEST_CASE("so have copies by the processor's instruction for strings", "[transport][copy]") {
  std::byte none{};
  if (!copy_string({}, &none)) return rondo::testing::skipped("this processor is not known to be quick at strings");
  check_everywhere([](std::span<const std::byte> from, std::byte* to) { REQUIRE(copy_string(from, to)); });
}
