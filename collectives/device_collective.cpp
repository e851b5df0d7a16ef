#include "collectives/device_collective.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <rondo/algorithm/dispatch.hpp>
#include <rondo/algorithms.hpp>

#include "collectives/device_port.hpp"
#include "collectives/direct_moves.hpp"
#include "collectives/exchange.hpp"
#include "collectives/team_collective.hpp"
#include "runtime/engine.hpp"

namespace rondo::detail {
namespace {

/// The kernels round a sum of 16-bit floats once, as the host does where it need not be the same for all algorithms.
bool rounds_every_step(const Plan& plan, ElementType type) {
  return plan.deterministic && (type == ElementType::float16 || type == ElementType::bfloat16);
}

}  // namespace

DeviceCollective::DeviceCollective(Group& group, const CollectiveCall& call, const Arguments& arguments)
    : group_(group),
      memory_(group.engine().device(), call, arguments, group.rank()),
      turn_(group, memory_, to_string(call.collective).data()),
      staging_(memory_) {}

Task DeviceCollective::run(Operation& operation, const Plan& plan, bool in_place, bool& done) {
  if (plan.algorithm == Algorithm::two_level) {
    group_.engine().device_peers().stage_as_apart();
    turn_.pass_to_host();
    co_return;
  }
  const DeviceReduction reduction = reduction_for(operation, plan);
  std::vector<DeviceShare> shares(static_cast<std::size_t>(group_.size()));
  shares[static_cast<std::size_t>(group_.rank())] = share(plan, in_place, reduction.kernels != nullptr);
  Task told = exchange(operation, Round::shares, shares);
  co_await told;
  const bool can = std::all_of(shares.begin(), shares.end(), [&](const DeviceShare& share) {
    return share.has_device != 0 && (share.has_kernels != 0 || !reduces(plan.collective));
  });
  if (!can) {
    turn_.pass_to_host();
    co_return;
  }
  work_.emplace(operation, turn_);
  const bool direct = shares_memory(plan.algorithm) && has_direct_on_devices(plan, shares);
  Task moved = direct ? run_direct_on_devices(*work_, memory_, plan, reduction, shares, done)
                      : run_by_messages(operation, plan, reduction, shares, done);
  co_await moved;
  if (done) co_return;
  work_.reset();  // of which a stream would get nothing
  turn_.pass_to_host();
}

Task DeviceCollective::run_by_messages(Operation& operation, const Plan& plan, const DeviceReduction& reduction,
                                       const std::vector<DeviceShare>& shares, bool& done) {
  const auto rank = static_cast<std::size_t>(group_.rank());
  const bool in_place = shares[rank].in_place != 0;
  std::vector<std::uint8_t> can(shares.size());
  can[rank] = maps_and_is_mapped(plan, shares[rank]) ? 1 : 0;
  Task told = exchange(operation, Round::maps, can);
  co_await told;
  done = std::find(can.begin(), can.end(), 0) == can.end();
  if (!done) co_return;
  const Plan by_messages = shares_memory(plan.algorithm) ? decided(plan, memory_.element_bytes(), operation,
                                                                   group_.everybody(), Nearness::any, true)
                                                         : plan;
  Task followed = work_->follow(memory_);
  co_await followed;
  DevicePort port(*work_, memory_, reduction, in_place, plan.by_own_counts);
  Task moved = run_collective(port, by_messages);
  co_await moved;
  Task ended = work_->end();
  co_await ended;
}

Task DeviceCollective::run_on_host(Operation& operation, const Plan& plan, const Reduction& reduction) {
  Task came = turn_.come(operation);
  co_await came;
  Task done = staging_.run(operation, plan, reduction);
  co_await done;
  turn_.end();
}

DeviceReduction DeviceCollective::reduction_for(const Operation& operation, const Plan& plan) {
  const RankDevice::Opened* const device = group_.engine().device().opened();
  if (!reduces(plan.collective) || device == nullptr) return {};
  if (!device->reductions) {
    group_.engine().device_peers().stage_instead(device->why_no_reductions);
    return {};
  }
  const Call& call = operation.call();
  const cuda::Reduction functions = device->reductions->find(to_string(call.type), to_string(call.reduce));
  if (!functions || rounds_every_step(plan, call.type)) return {};
  for (const auto& buffer : {memory_.given(), memory_.got()}) {
    if (!buffer || buffer->address % functions.alignment == 0) continue;
    group_.engine().device_peers().stage_instead("it is not aligned as the elements are that are to be combined");
    return {};
  }
  return {&*device->reductions, functions};
}

DeviceShare DeviceCollective::share(const Plan& plan, bool in_place, bool has_kernels) {
  DeviceShare own;
  const RankDevice::Opened* const device = group_.engine().device().opened();
  own.has_device = turn_ ? 1 : 0;
  own.has_kernels = has_kernels ? 1 : 0;
  own.in_place = in_place ? 1 : 0;
  if (!turn_) return own;
  own.device = device->uuid;
  for (int member = 0; member < group_.size(); ++member) {
    if (member != group_.rank()) group_.engine().device_peers().introduce(group_.world_rank(member));
  }
  const DirectMoves moves(plan, group_.rank(), group_.size(), in_place);
  own.input = expose(moves.offered());
  own.output = expose(moves.got());
  return own;
}

bool DeviceCollective::maps_and_is_mapped(const Plan& plan, const DeviceShare& own) {
  if (group_.size() == 1) return true;
  const DirectMoves moves(plan, group_.rank(), group_.size(), own.in_place != 0);
  const auto is_exposed = [](const Range& range, const DevicePlace& place) {
    return range.count == 0 || place.region != 0;
  };
  bool all = is_exposed(moves.offered(), own.input) && is_exposed(moves.got(), own.output);
  for (int member = 0; member < group_.size() && all; ++member) {
    all = member == group_.rank() || group_.engine().device_peers().maps(group_.world_rank(member));
  }
  return all;
}

DevicePlace DeviceCollective::expose(const Range& range) {
  DevicePlace place;
  if (range.count == 0) return place;
  for (int member = 0; member < group_.size(); ++member) {
    if (member == group_.rank()) continue;
    place =
        group_.engine().device_peers().expose(group_.world_rank(member), memory_.facts(range), memory_.address(range));
    if (place.region == 0) return place;
  }
  return place;
}

bool DeviceCollective::order(CudaStream stream) const {
  return (work_ && work_->order(stream)) || staging_.order(group_.engine().device(), stream);
}

}  // namespace rondo::detail
