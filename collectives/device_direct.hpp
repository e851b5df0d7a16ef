#pragma once

#include <rondo/plan.hpp>
#include <rondo/task.hpp>

#include "collectives/device_memory.hpp"
#include "collectives/device_reduction.hpp"
#include "collectives/device_work.hpp"

namespace rondo::detail {

/// What every rank tells the others before a collective on devices.
struct DeviceShare {
  cuda::Uuid device{};
  DevicePlace input;  ///< of what others may need of it
  DevicePlace output;
  std::uint8_t has_device = 0;
  std::uint8_t has_kernels = 0;
  std::uint8_t in_place = 0;
};

/// The collective of `plan` among ranks that map each other's memory: each takes what it needs straight from where it
/// lies, at the latest when all that the others' streams had been given is done. P ranks, n bytes of the vector, m of
/// a block; bytes read and written by all together:
///
///     all_reduce   sliced   each its slice for all                2Pn
///                  direct   each all, for itself                  P(P+1)n; in place `sliced`
///     reduce       sliced   each its slice for the root           (P+1)n
///                  direct   the root alone                        (P+1)n
///     reduce_scatter        each its own block                    (P+1)n
///     others                each copies what belongs to it        2n, 2Pn, ...
///
/// `leader`: where all share one device rank 0 does all of this for all, all_reduce by one kernel of 2Pn. A device
/// serves the processes that share it by turns, and to change from one to the next takes it longer than most
/// collectives would: 145 us an H200. On several devices `sliced`, or each its own.
///
/// Operands are combined from the left, in rank order. `done` stays false, on all ranks alike and with nothing done,
/// where some rank cannot map what it needs.
Task run_direct_on_devices(DeviceWork& work, DeviceMemory& memory, const Plan& plan, const DeviceReduction& reduction,
                           const std::vector<DeviceShare>& shares, bool& done);

/// Whether there is such a form: there may be more ranks than a kernel takes, or inputs that would be overwritten while
/// others read them. The same answer on all ranks.
bool has_direct_on_devices(const Plan& plan, const std::vector<DeviceShare>& shares) noexcept;

}  // namespace rondo::detail
