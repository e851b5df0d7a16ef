#include "transport/shared_stores.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <vector>

#include "tests/support/catch.hpp"

using namespace rondo::detail;

namespace {

constexpr std::size_t kBytes = 2 * SharedStores::kLeast;

/// Each look at it is so much later than the one before.
struct SteppingTime {
  static std::chrono::steady_clock::time_point now() { return time += step; }
  static inline std::chrono::steady_clock::time_point time{};
  static inline std::chrono::nanoseconds step{};
};

/// What is learnt of copies that take so long.
struct Learner {
  void copy(std::chrono::nanoseconds duration, std::size_t bytes = kBytes) {
    SteppingTime::step = duration;
    stores.copy(std::span(from).first(bytes), to.data());
  }
  bool past_caches() const { return stores.past_caches(kBytes); }

  SharedStores stores{&SteppingTime::now};
  std::vector<std::byte> from = std::vector<std::byte>(kBytes);
  std::vector<std::byte> to = std::vector<std::byte>(kBytes);
};

constexpr std::chrono::nanoseconds kFast(kBytes / 5);
constexpr std::chrono::nanoseconds kSlow(kBytes / 2);

}  // namespace

TEST_CASE("who found the caches of others slow twice in a row stores past them for a while", "[transport][stores]") {
  Learner learner;
  learner.copy(kSlow);
  CHECK_FALSE(learner.past_caches());
  learner.copy(kFast);
  learner.copy(kSlow);
  CHECK_FALSE(learner.past_caches());
  learner.copy(kSlow);
  CHECK(learner.past_caches());
  CHECK_FALSE(learner.stores.past_caches(SharedStores::kLeast - 1));

  for (int i = 1; i < SharedStores::kCopies; ++i) learner.copy(kFast);
  CHECK(learner.past_caches());
  learner.copy(kFast);
  CHECK_FALSE(learner.past_caches());

  SECTION("and goes on if they still are") {
    learner.copy(kSlow);
    CHECK(learner.past_caches());
  }
  SECTION("and no longer if they are not") {
    learner.copy(kFast);
    learner.copy(kSlow);
    CHECK_FALSE(learner.past_caches());
  }
}

TEST_CASE("short copies teach nothing", "[transport][stores]") {
  Learner learner;
  for (int i = 0; i < 10; ++i) learner.copy(kSlow, SharedStores::kLeast - 1);
  CHECK_FALSE(learner.past_caches());
}

TEST_CASE("bytes stored past the caches are there, and none beside them", "[transport][stores]") {
  constexpr auto kOther = std::byte{0xee};
  std::array<std::byte, 400> from;
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = std::byte(i % 200);
  for (std::size_t begin = 0; begin < 20; ++begin) {
    for (const std::size_t bytes : {0U, 1U, 7U, 15U, 16U, 17U, 31U, 64U, 100U, 333U}) {
      std::array<std::byte, 400> to;
      to.fill(kOther);
      const auto part = std::span(from).subspan(begin / 3, bytes);
      store_past_caches(part, to.data() + begin);
      CHECK(std::equal(part.begin(), part.end(), to.begin() + static_cast<std::ptrdiff_t>(begin)));
      CHECK(std::count(to.begin(), to.end(), kOther) == static_cast<std::ptrdiff_t>(to.size() - bytes));
    }
  }
}
