#include <algorithm>
#include <coroutine>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include <rondo/pipeline.hpp>

#include "tests/collectives/memory_network.hpp"
#include "tests/support/catch.hpp"

using namespace rondo;
using rondo::test::MemoryNetwork;
using rondo::test::MemoryPort;

namespace {

/// Lanes stop here until the test lets them go on, in the order that it likes.
struct Gate {
  std::vector<std::coroutine_handle<>> waiting;

  struct Pass {
    Gate& gate;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> lane) const { gate.waiting.push_back(lane); }
    void await_resume() const noexcept {}
  };
  Pass pass() { return {*this}; }

  void open(std::size_t index) {
    const auto lane = waiting[index];
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(index));
    lane.resume();
  }
};

struct Record {
  Gate gate;
  std::vector<std::size_t> chunks;
  std::size_t failing = 1000;
};

Task walk(MemoryPort&, Record& record, Lane lane) {
  for (std::size_t index = lane.first; index < lane.end; index += lane.stride) {
    auto pass = record.gate.pass();
    co_await pass;
    if (index >= record.failing) throw std::runtime_error("chunk " + std::to_string(index));
    record.chunks.push_back(index);
  }
}

Task walk_in_lanes(MemoryPort& port, Record& record, std::size_t chunks, int lanes) {
  return pipeline(port, chunks, lanes, [&record](MemoryPort& p, const Lane& lane) { return walk(p, record, lane); });
}

}  // namespace

TEST_CASE("lanes go through all chunks, as many at a time as there are lanes", "[collectives][pipeline]") {
  MemoryNetwork network(2, false, 0);
  MemoryPort port(network, 0, 0);
  for (const int lanes : {1, 2, 3, 8, 100}) {
    for (const std::size_t chunks : {0U, 1U, 2U, 7U, 20U}) {
      Record record;
      Task task = walk_in_lanes(port, record, chunks, lanes);
      task.start();
      const auto width = std::min<std::size_t>(chunks, static_cast<std::size_t>(std::min(lanes, kMaxLanes)));
      CHECK(record.gate.waiting.size() == width);
      while (!record.gate.waiting.empty()) record.gate.open(record.gate.waiting.size() / 2);
      REQUIRE(task.done());
      CHECK_NOTHROW(task.result());
      std::sort(record.chunks.begin(), record.chunks.end());
      REQUIRE(record.chunks.size() == chunks);
      for (std::size_t i = 0; i < chunks; ++i) CHECK(record.chunks[i] == i);
    }
  }
}

TEST_CASE("a pipeline waits for all lanes and throws what failed first", "[collectives][pipeline]") {
  MemoryNetwork network(2, false, 0);
  MemoryPort port(network, 0, 0);
  Record record;
  record.failing = 3;
  Task task = walk_in_lanes(port, record, 6, 3);
  task.start();
  // Lane 1 gets to chunk 4 and fails there; the others still run.
  record.gate.open(1);
  record.gate.open(2);
  CHECK_FALSE(task.done());
  while (!record.gate.waiting.empty()) record.gate.open(0);
  REQUIRE(task.done());
  CHECK_THROWS_WITH(task.result(), "chunk 4");
}

TEST_CASE("a pipeline may be dropped while its lanes wait", "[collectives][pipeline]") {
  MemoryNetwork network(2, false, 0);
  MemoryPort port(network, 0, 0);
  Record record;
  {
    Task task = walk_in_lanes(port, record, 6, 3);
    task.start();
    record.gate.open(0);
  }
  CHECK(record.chunks.size() == 1);
}
