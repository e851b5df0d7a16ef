#include "collectives/mapped_all_reduce.hpp"

#include <algorithm>
#include <vector>

#include "collectives/shared_work.hpp"

namespace rondo::detail {
namespace {

// What is combined stays in a core's first cache until it has been written to all outputs.
constexpr std::size_t kPieceBytes = std::size_t{16} << 10;

}  // namespace

Task mapped_all_reduce(DirectPort& port, const Plan& plan, bool& done) {
  const auto step = port.next_bytes(sizeof(DirectPort::Buffers));
  auto room = port.room(step);
  co_await room;
  port.show_buffers(step, plan.blocks.total());
  port.enter(step);
  auto all = port.entered(step);
  co_await all;
  std::vector<DirectPort::Mapped> ranks;
  if (!port.find_buffers(step, ranks)) co_return;
  done = true;

  const SharedWork work(port, plan.blocks.total());
  const std::size_t piece = std::max<std::size_t>(kPieceBytes / port.element_bytes(), 1);
  work.run(port, step, [&](const Range& slice) {
    for (std::size_t begin = 0; begin < slice.count; begin += piece) {
      port.fold_mapped(ranks, slice.begin + begin, std::min(piece, slice.count - begin));
    }
  });
  for (int turn = 0; turn < port.size(); ++turn) {
    auto finished = port.finished(step, (port.rank() + turn) % port.size());
    co_await finished;
  }
}

}  // namespace rondo::detail
