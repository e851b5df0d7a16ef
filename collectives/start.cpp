#include <memory>
#include <optional>
#include <utility>

#include <rondo/barrier.hpp>
#include <rondo/collective_call.hpp>
#include <rondo/cuda.hpp>

#include "collectives/collective_operation.hpp"
#include "collectives/direct.hpp"
#include "collectives/prepared.hpp"
#include "runtime/access.hpp"
#include "runtime/naming.hpp"

namespace rondo::detail {
namespace {

/// Nothing stands in the way of a collective in shared memory.
bool is_free(Group& group) {
  const Commons& commons = group.commons();
  return commons.arena() && commons.idle() && !group.oldest_operation() && !group.failed();
}

/// Does it here and now, without an operation, if it is short, in shared memory, and the others are not far behind.
/// False: it is to be started; `begun` tells how far its first step has come.
bool run_at_once(Group& group, const CollectiveCall& request, const Prepared& prepared, DirectPort::Begun& begun) {
  if (prepared.plan.algorithm != Algorithm::direct || prepared.call.on_either_side() || !is_free(group)) return false;
  // Of what a callable throws the others must hear.
  if (request.reduction.kind() == ReduceKind::custom) return false;
  HostMemory memory(group.engine(), request.element_bytes, request.reduction, group.size());
  memory.set(prepared.arguments.input, prepared.arguments.output);
  DirectPort port(group, group.everybody(), prepared.call, memory, prepared.arguments.in_place);
  if (!run_at_once(port, prepared.plan, begun)) return false;
  group.pass_number(prepared.call);
  if (RecentCalls::Known* const known = RecentCalls::of(group).find(request)) {
    known->script = script_of(port, prepared.plan);
  }
  return true;
}

/// The same for a call whose script is known.
bool repeat(Group& group, const CollectiveCall& request, const RecentCalls::Known& known, DirectPort::Begun& begun) {
  if (!is_free(group)) return false;
  HostMemory memory(group.engine(), request.element_bytes, request.reduction, group.size());
  DirectPort port(group, group.everybody(), known.prepared.call, memory, false);
  if (!repeat(port, *known.script, begun)) return false;
  group.pass_number(known.prepared.call);
  return true;
}

/// As it was the last time, or checked and decided now, in `fresh`.
const Prepared& prepare(Group& group, const CollectiveCall& request, const RecentCalls::Known* known,
                        std::optional<Prepared>& fresh) {
  if (known) return known->prepared;
  fresh.emplace(request, group);
  RecentCalls::of(group).add(request, *fresh);
  return *fresh;
}

std::unique_ptr<DeviceCollective> device_for(Group& group, const CollectiveCall& request, const Prepared& prepared) {
  const bool is_open = prepared.call.on_either_side() && !has_elements(request, group.rank());
  if (!request.on_device() && !is_open) return nullptr;
  try {
    return naming(group.rank(), -1,
                  [&] { return std::make_unique<DeviceCollective>(group, request, prepared.arguments); });
  } catch (const Error& error) {
    // Not a mistake that the others have made, too, as to ask for devices where there are none.
    if (error.code() == Errc::cuda && cuda::available()) group.report_throw(request.collective, 0, error);
    throw;
  }
}

/// What of it has `begun` is done already.
void run_to_end(Progress::Entry& entry, Group& group, CollectiveCall& request, const Prepared& prepared,
                DirectPort::Begun begun) {
  std::unique_ptr<DeviceCollective> device = device_for(group, request, prepared);
  if (prepared.plan.deterministic) request.reduction.round_every_step();
  if (!device && !begun.step && run_at_once(group, request, prepared, begun)) return;
  CollectiveOperation operation(group, request, prepared, begun, std::move(device));
  operation.start();
  group.engine().progress().finish(entry, operation);
  if (operation.error()) std::rethrow_exception(operation.error());
}

CollectiveCall barrier_call(const Options& options) {
  CollectiveCall request(Collective::barrier, options);
  request.element_bytes = 1;
  return request;
}

}  // namespace

void run(Communicator& communicator, CollectiveCall&& request) {
  Group& group = CommunicatorAccess::group(communicator, request.collective);
  Progress& progress = group.engine().progress();
  Progress::Entry entry(progress);
  // What is done on the spot never looks at the engine, and keeps the helper thread away.
  if (!progress.nothing_unattended()) progress.poke(entry);
  group.check();
  const RecentCalls::Known* const known = RecentCalls::of(group).find(request);
  DirectPort::Begun begun;
  if (known && known->script && repeat(group, request, *known, begun)) return;
  std::optional<Prepared> fresh;
  run_to_end(entry, group, request, prepare(group, request, known, fresh), begun);
}

Work start(Communicator& communicator, CollectiveCall&& request) {
  Group& group = CommunicatorAccess::group(communicator, request.collective);
  Progress::Entry entry(group.engine().progress());
  group.check();
  std::optional<Prepared> fresh;
  const Prepared& prepared = prepare(group, request, RecentCalls::of(group).find(request), fresh);
  std::unique_ptr<DeviceCollective> device = device_for(group, request, prepared);
  if (prepared.plan.deterministic) request.reduction.round_every_step();
  auto operation =
      std::make_unique<CollectiveOperation>(group, request, prepared, DirectPort::Begun{}, std::move(device));
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
