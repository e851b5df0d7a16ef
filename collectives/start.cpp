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

/// `known`: what is known of such a call, whose first step has `begun`; nullptr: nothing.
void run_to_end(Progress::Entry& entry, Group& group, CollectiveCall request, const Prepared* known,
                DirectPort::Begun begun) {
  Prepared prepared = known ? *known : Prepared(request, group);
  if (prepared.plan.deterministic) request.reduction.round_every_step();
  if (!known && run_at_once(group, request, prepared, begun)) return RecentCalls::of(group).add(request, prepared);
  CollectiveOperation operation(group, prepared.call, std::move(request), prepared.arguments, std::move(prepared.plan),
                                begun);
  operation.start();
  group.engine().progress().finish(entry, operation);
  if (operation.error()) std::rethrow_exception(operation.error());
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
  Progress::Entry entry(group.engine().progress());
  group.check();
  const Prepared* const known = RecentCalls::of(group).find(request);
  DirectPort::Begun begun;
  if (known && run_at_once(group, request, *known, begun)) return;
  run_to_end(entry, group, std::move(request), known, begun);
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
