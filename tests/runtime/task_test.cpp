#include <coroutine>
#include <stdexcept>

#include <rondo/task.hpp>

#include "tests/support/catch.hpp"

using rondo::Task;

namespace {

constexpr int kMany = 300'000;

Task add(int& sum) {
  ++sum;
  co_return;
}

Task add_many(int& sum) {
  for (int i = 0; i < kMany; ++i) {
    Task next = add(sum);
    co_await next;
  }
}

/// Stops who awaits it until it is opened.
struct Gate {
  std::coroutine_handle<> waiting;

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> awaiting) noexcept { waiting = awaiting; }
  void await_resume() const noexcept {}
};

Task pass(Gate& gate, int& passed) {
  co_await gate;
  ++passed;
}

Task pass_many(Gate& gate, int& passed) {
  for (int i = 0; i < kMany; ++i) {
    Task next = pass(gate, passed);
    co_await next;
  }
}

Task fail(Gate* gate) {
  if (gate) co_await *gate;
  throw std::runtime_error("failed");
}

Task await(Task& other) { co_await other; }

}  // namespace

// A stack has room for some thousands of frames: without a tail call, the sanitizers' builds end here if each task
// resumes the next.
TEST_CASE("tasks one after another take no more stack than one", "[runtime][task]") {
  int sum = 0;
  SECTION("that are never suspended") {
    Task all = add_many(sum);
    all.start();
    CHECK(all.done());
  }
  SECTION("that are suspended each") {
    Gate gate;
    Task all = pass_many(gate, sum);
    all.start();
    for (int i = 0; i < kMany; ++i) {
      REQUIRE(sum == i);
      gate.waiting.resume();
    }
    CHECK(all.done());
  }
  CHECK(sum == kMany);
}

TEST_CASE("what a task throws reaches who awaits it, whenever it was thrown", "[runtime][task]") {
  Gate gate;
  const bool at_once = GENERATE(true, false);
  Task failing = fail(at_once ? nullptr : &gate);
  Task awaiting = await(failing);
  awaiting.start();
  if (!at_once) {
    CHECK_FALSE(awaiting.done());
    gate.waiting.resume();
  }
  REQUIRE(awaiting.done());
  CHECK_THROWS_AS(awaiting.result(), std::runtime_error);
}
