#include "collectives/device_staging.hpp"

#include <algorithm>
#include <cstdint>
#include <span>

#include <rondo/algorithm/dispatch.hpp>

#include "collectives/exchange.hpp"
#include "collectives/host_memory_port.hpp"
#include "runtime/engine.hpp"

namespace rondo::detail {

Task DeviceStaging::run(Operation& operation, const Plan& plan, const Reduction& reduction) {
  std::size_t largest_block = plan.blocks.largest();
  if (plan.by_own_counts) {
    Task found = find_largest_block(operation, plan, largest_block);
    co_await found;
  }
  Group& group = operation.group();
  RankDevice& device = group.engine().device();
  const Pieces pieces(plan, group.rank(), device.piece_bytes / memory_.element_bytes(), largest_block);
  Slots given, got;
  if (pieces.count() > 0) bring(device, pieces.given(0), given[0]);
  for (std::size_t index = 0; index < pieces.count(); ++index) {
    const std::size_t next = index + 1;
    if (next < pieces.count()) bring(device, pieces.given(next), given[next % kAhead]);
    Slot& in = given[index % kAhead];
    Slot& out = got[index % kAhead];
    Task brought = done_with(operation, in);
    co_await brought;
    Task taken = done_with(operation, out);
    co_await taken;
    make_room(device, out, pieces.got(index));
    HostMemory memory(group.engine(), memory_.element_bytes(), reduction, group.size());
    const bool sends_output = plan.collective == Collective::broadcast && group.rank() == plan.root;
    memory.set(in.data(), sends_output ? in.data() : out.data());
    HostMemoryPort port(operation, group.everybody(), memory, false, plan.by_own_counts);
    const Plan piece = pieces.plan(index);
    Task done = run_collective(port, piece);
    co_await done;
    take(device, pieces.got(index), out);
    taken_ = memory_.got() && next == pieces.count();
  }
  for (Slot& slot : got) {
    Task taken = done_with(operation, slot);
    co_await taken;
  }
}

Task DeviceStaging::find_largest_block(Operation& operation, const Plan& plan, std::size_t& largest) const {
  std::vector<std::uint64_t> all(static_cast<std::size_t>(operation.group().size()));
  all[static_cast<std::size_t>(operation.group().rank())] = std::max(plan.blocks.largest(), plan.recv_blocks.largest());
  Task told = exchange(operation, Round::largest_block, all);
  co_await told;
  largest = *std::max_element(all.begin(), all.end());
}

Task DeviceStaging::done_with(Operation& operation, Slot& slot) {
  for (const auto& copy : slot.copies) {
    Task waited = over(operation, copy);
    co_await waited;
  }
  slot.copies.clear();
}

void DeviceStaging::make_room(RankDevice& device, Slot& slot, const std::vector<Range>& ranges) const {
  std::size_t bytes = 0;
  for (const Range& range : ranges) bytes += memory_.bytes(range);
  if (bytes > 0 && !slot.memory) slot.memory = device.stage(bytes);
}

// A copy holds what it needs: the device may be at it when nobody waits for it any more.
template <typename Copy>
void DeviceStaging::each(const std::vector<Range>& ranges, const DeviceMemory::Buffer& buffer, Slot& slot,
                         const Copy& copy) const {
  std::byte* place = slot.data();
  for (const Range& range : ranges) {
    if (range.count == 0) continue;
    const std::span bytes(place, memory_.bytes(range));
    const auto& copied = slot.copies.emplace_back(std::make_shared<DeviceEvent>());
    copy(bytes, DeviceEvent::ended(copied, slot.memory), memory_.address(range) - buffer->address);
    place += bytes.size();
  }
}

void DeviceStaging::bring(RankDevice& device, const std::vector<Range>& ranges, Slot& slot) const {
  make_room(device, slot, ranges);
  const auto& given = memory_.given();
  each(ranges, given, slot, [&](std::span<std::byte> to, const RankDevice::Ended& ended, std::size_t offset) {
    device.read(given, to, -1, ended, offset);
  });
}

void DeviceStaging::take(RankDevice& device, const std::vector<Range>& ranges, Slot& slot) const {
  const auto& got = memory_.got();
  each(ranges, got, slot, [&](std::span<const std::byte> from, const RankDevice::Ended& ended, std::size_t offset) {
    device.write(got, from, -1, ended, offset);
  });
}

}  // namespace rondo::detail
