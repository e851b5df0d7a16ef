#include "collectives/mapped.hpp"

#include <algorithm>

#include "collectives/shared_work.hpp"

namespace rondo::detail {
namespace {

// What is combined stays in a core's first cache until it has been written to all outputs.
constexpr std::size_t kPieceBytes = std::size_t{16} << 10;

}  // namespace

Task run_mapped(DirectPort& port, const Plan& plan, bool& done) {
  const auto has_output = [&](int rank) { return plan.collective == Collective::all_reduce || rank == plan.root; };
  const auto step = port.next_exposed();
  auto room = port.room(step);
  co_await room;
  port.expose(step, plan.blocks.whole(Buffer::input),
              has_output(port.rank()) ? plan.blocks.whole(Buffer::output) : Range{});
  port.enter(step);
  auto all = port.entered(step);
  co_await all;
  const DirectPort::MappedRanks ranks = port.mapped(step);
  for (int member = 0; member < port.size(); ++member) {
    const DirectPort::Mapped& theirs = ranks[static_cast<std::size_t>(member)];
    if (!theirs.input || (has_output(member) && !theirs.output)) co_return;
  }
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
  auto good = port.still_exposed(step);
  co_await good;
}

}  // namespace rondo::detail
