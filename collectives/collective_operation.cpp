#include "collectives/collective_operation.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <rondo/algorithm/dispatch.hpp>
#include <rondo/error.hpp>
#include <rondo/tuning.hpp>

#include "collectives/direct.hpp"
#include "collectives/exchange.hpp"
#include "collectives/team_collective.hpp"
#include "collectives/two_level.hpp"

namespace rondo::detail {

CollectiveOperation::CollectiveOperation(Group& group, CollectiveCall& request, const Prepared& prepared,
                                         const DirectPort::Begun& begun, std::unique_ptr<DeviceCollective> device)
    : Operation(group, prepared.call, request.options.timeout),
      side_(!has_elements(request, group.rank()) ? OwnSide::none
            : device                             ? OwnSide::device
                                                 : OwnSide::host),
      reduction_(std::move(request.reduction)),
      memory_(group.engine(), request.element_bytes, reduction_, group.size()),
      plan_(prepared.plan),
      begun_(begun),
      port_(*this, group.everybody(), memory_, prepared.arguments.in_place, plan_.by_own_counts),
      device_(std::move(device)) {
  memory_.set(prepared.arguments.input, prepared.arguments.output);
}

Task CollectiveOperation::body() {
  if (call().on_either_side()) return on_side_of_others();
  return device_ ? on_device() : on_host();
}

std::size_t CollectiveOperation::moved_bytes() const noexcept {
  if (!plan_.by_own_counts) return Operation::moved_bytes();
  return std::max(plan_.blocks.largest(), plan_.recv_blocks.largest()) * memory_.element_bytes();
}

Task CollectiveOperation::on_side_of_others() {
  std::vector<OwnSide> sides(static_cast<std::size_t>(group().size()));
  sides[static_cast<std::size_t>(group().rank())] = side_;
  Task told = exchange(*this, Round::sides, sides);
  co_await told;
  const auto first = [&](OwnSide side) { return std::find(sides.begin(), sides.end(), side) - sides.begin(); };
  const auto device = first(OwnSide::device), host = first(OwnSide::host), none = std::ssize(sides);
  if (device != none && host != none) {
    group().report_failure(
        Error(Errc::collective_mismatch,
              fmt::format("{} gave memory of a device, {} of the host: wanted all of one side",
                          group().name(static_cast<int>(device)), group().name(static_cast<int>(host))),
              group().facts_of(call().collective, number())));
    throw ToldFailure();
  }
  if (device == none) {
    device_.reset();  // its turn on the device, which nothing comes of, keeps those that follow from theirs
    leave_shared_memory();
  }
  Task done = device != none ? on_device() : on_host();
  co_await done;
}

// In shared memory ranks take their turns in the order of their calls, and this one comes late.
void CollectiveOperation::leave_shared_memory() {
  if (!shares_memory(plan_.algorithm) && plan_.algorithm != Algorithm::two_level) return;
  plan_ = decided(std::move(plan_), memory_.element_bytes(), *this, group().everybody(), Nearness::any);
}

Task CollectiveOperation::on_device() {
  try {
    Task done = on_device_or_host();
    co_await done;
  } catch (const cuda::CudaError&) {
    throw error_of(std::current_exception(), {}, group().facts_of(call().collective, number()));
  }
}

Task CollectiveOperation::on_device_or_host() {
  bool done = false;
  Task on_devices = device_->run(*this, plan_, port_.in_place(), done);
  co_await on_devices;
  if (done) co_return;
  leave_shared_memory();
  Task through_the_host = device_->run_on_host(*this, plan_, reduction_);
  co_await through_the_host;
}

Task CollectiveOperation::on_host() {
  if (plan_.algorithm == Algorithm::two_level) return run_two_level(*this, memory_, plan_);
  return shares_memory(plan_.algorithm) ? in_shared_memory() : run_collective(port_, plan_);
}

Task CollectiveOperation::in_shared_memory() {
  Team& everybody = group().everybody();
  if (everybody.size() > 1) {
    Turn turn(*this, everybody);
    Task came = turn.come_with_arena();
    co_await came;
    bool done = false;
    Task run = run_in_arena(*this, everybody, memory_, plan_, port_.in_place(), begun_, done);
    co_await run;
    if (done) co_return;
  }
  plan_ = decided(std::move(plan_), memory_.element_bytes(), *this, everybody, Nearness::any);
  Task run = run_collective(port_, plan_);
  co_await run;
}

}  // namespace rondo::detail
