#include <memory>
#include <optional>
#include <utility>

#include <rondo/barrier.hpp>
#include <rondo/collective_call.hpp>

#include "collectives/collective_operation.hpp"
#include "collectives/direct.hpp"
#include "collectives/prepared.hpp"
#include "runtime/access.hpp"

namespace rondo::detail {
namespace {

/// Does it here and now, without an operation, if it is short, in shared memory, and the others are not far behind.
/// False: it is to be started; `begun` tells how far its first step has come.
bool run_at_once(Group& group, const CollectiveCall& request, const Prepared& prepared, DirectPort::Begun& begun) {
  Commons& commons = group.commons();
  if (prepared.plan.algorithm != Algorithm::direct || !commons.arena() || !commons.idle() || group.oldest_operation()) {
    return false;
  }
  HostMemory memory(group.engine(), request.element_bytes, request.reduction, group.size());
  memory.set(prepared.arguments.input, prepared.arguments.output);
  DirectPort port(group, group.everybody(), prepared.call, memory, prepared.arguments.in_place);
  if (!run_at_once(port, prepared.plan, begun)) return false;
  group.pass_number(prepared.call);
  return true;
}

CollectiveCall barrier_call(const Options& options) {
  CollectiveCall request;
  request.collective = Collective::barrier;
  request.element_bytes = 1;
  request.options = options;
  return request;
}

}  // namespace

void run(Communicator& communicator, CollectiveCall request) {
  Group& group = CommunicatorAccess::group(communicator, to_string(request.collective).data());
  Progress& progress = group.engine().progress();
  Progress::Entry entry(progress);
  group.check();
  RecentCalls& recent = RecentCalls::of(group);
  const Prepared* const known = recent.find(request);
  std::optional<Prepared> fresh;
  const Prepared& prepared = known ? *known : fresh.emplace(request, group);
  if (prepared.plan.deterministic) request.reduction.round_every_step();
  DirectPort::Begun begun;
  if (run_at_once(group, request, prepared, begun)) {
    if (!known) recent.add(request, prepared);
    return;
  }
  CollectiveOperation operation(group, prepared.call, std::move(request), prepared.arguments,
                                fresh ? std::move(fresh->plan) : known->plan, begun);
  operation.start();
  progress.finish(entry, operation);
  if (operation.error()) std::rethrow_exception(operation.error());
}

Work start(Communicator& communicator, CollectiveCall request) {
  Group& group = CommunicatorAccess::group(communicator, to_string(request.collective).data());
  Progress::Entry entry(group.engine().progress());
  group.check();
  Prepared prepared(request, group);
  if (prepared.plan.deterministic) request.reduction.round_every_step();
  auto operation = std::make_unique<CollectiveOperation>(group, prepared.call, std::move(request), prepared.arguments,
                                                         std::move(prepared.plan));
  operation->start();
  return WorkAccess::make(CommunicatorAccess::engine(communicator), std::move(operation));
}

}  // namespace rondo::detail

namespace rondo {

void barrier(Communicator& communicator, const Options& options) {
  detail::run(communicator, detail::barrier_call(options));
}

Work ibarrier(Communicator& communicator, const Options& options) {
  return detail::start(communicator, detail::barrier_call(options));
}

}  // namespace rondo
