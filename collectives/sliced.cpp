#include "collectives/sliced.hpp"

#include <algorithm>

#include "collectives/mapped.hpp"
#include "collectives/shared_work.hpp"

namespace rondo::detail {

Task run_sliced(DirectPort& port, const Plan& plan) {
  if (port.may_be_mapped()) {
    bool done = false;
    Task mapped = run_mapped(port, plan, done);
    co_await mapped;
    port.conceal();
    if (done) co_return;
  }
  const Range input = plan.blocks.whole(Buffer::input);
  const Range output = plan.blocks.whole(Buffer::output);
  const int rank = port.rank();
  const int size = port.size();
  const bool wanted = plan.collective == Collective::all_reduce || rank == plan.root;
  const std::size_t window = port.window(plan.chunk, 1);
  std::size_t begin = 0;
  do {
    const std::size_t count = std::min(window, input.count - begin);
    const Range in = input.part(begin, count);
    const Range out = output.part(begin, count);
    const SharedWork work(port, count);
    const auto step = port.next(count);
    auto room = port.room(step);
    co_await room;
    if (work.claimed()) {
      port.lay_out(step, 0, in);
    } else {
      const std::size_t own = work.slices().begin(rank);
      const std::size_t after = work.slices().begin(rank + 1);
      port.lay_out(step, 0, in.part(0, own));
      port.lay_out(step, after, in.part(after, count - after));
    }
    port.enter(step);
    auto all = port.entered(step);
    co_await all;
    work.run(port, step,
             [&](const Range& slice) { port.fold_in_place(step, slice.begin, in.part(slice.begin, slice.count)); });
    for (int turn = 0; wanted && turn < size; ++turn) {
      const int of = (rank + turn) % size;
      auto ready = port.finished(step, of);
      co_await ready;
      const Range slice = work.slices().in(Buffer::output, of);
      port.take(step, port.worker(step, of), slice.begin, out.part(slice.begin, slice.count));
    }
    begin += count;
  } while (begin < input.count);
}

}  // namespace rondo::detail
