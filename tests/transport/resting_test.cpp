#include "transport/resting.hpp"

#include <sys/syscall.h>

#include <thread>

#include "tests/support/catch.hpp"
#include "tests/support/deny.hpp"

using namespace rondo::detail;
using namespace rondo::testing;

TEST_CASE("a publisher need not order its writes for one who orders them before it sleeps", "[transport][resting]") {
  Resting::order();
  Resting::Word word{0};
  CHECK_FALSE(Resting::awake_in_order(word));
  CHECK_FALSE(Resting::must_wake(word));
  Resting::rest(word, false);
  CHECK(Resting::awake_in_order(word));
  Resting::rest(word, true);
  CHECK_FALSE(Resting::awake_in_order(word));
  CHECK(Resting::must_wake(word));
  CHECK_FALSE(Resting::must_wake(word));
  CHECK_FALSE(Resting::awake_in_order(word));
  Resting::rest(word, false);
  CHECK(Resting::awake_in_order(word));
}

TEST_CASE("a publisher orders its writes itself for one who may not", "[transport][resting]") {
  Resting::Word word{0};
  bool in_order = true;
  std::thread([&] {
    deny(__NR_membarrier);
    Resting::rest(word, true);
    Resting::order();
    Resting::rest(word, false);
    in_order = Resting::awake_in_order(word);
  }).join();
  CHECK_FALSE(in_order);
  CHECK_FALSE(Resting::must_wake(word));
  Resting::rest(word, true);
  CHECK(Resting::must_wake(word));
}
