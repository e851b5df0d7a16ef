#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cuda/driver_types.hpp"

/// A driver for CUDA without CUDA, for tests: device memory is memory that other processes may map, streams are
/// threads, kernels are loops. It is as strict as a real driver is not: what there would go wrong now and then ends the
/// process here, saying what was wrong.
///
/// What it does not show: the memory model of devices, time, and any order between default and other streams.
namespace rondo::stand_in {

using namespace rondo::cuda;

/// What the environment says of the machine.
struct Machine {
  /// Of a device that the process does not see.
  static constexpr int kUnseen = -2;

  int devices = 1;           ///< FAKECUDA_DEVICES
  std::vector<int> visible;  ///< CUDA_VISIBLE_DEVICES: those of them that the process sees, by its own numbers
  std::vector<std::pair<int, int>> peers;  ///< FAKECUDA_PEERS: "0-1,2-3", "none"; all reach all when not given
  bool all_peers = true;
  bool nvlink = true;             ///< FAKECUDA_NVLINK=0: they do so over PCIe
  std::uint64_t seed = 0;         ///< FAKECUDA_SEED: of the delays in streams; 0: none
  int copy_ms = 0;                ///< FAKECUDA_COPY_MS: so long each copy takes
  bool time_slice = false;        ///< FAKECUDA_TIME_SLICE=1: one kernel at a time on a device, of all processes
  int kernel_timeout_ms = 10000;  ///< FAKECUDA_KERNEL_TIMEOUT_MS, in that mode
  std::uint64_t mappable = ~std::uint64_t{0};  ///< FAKECUDA_MAPPABLE: bytes that a process may map of others
  int unmappable = -1;  ///< FAKECUDA_UNMAPPABLE=device:code: memory of others on that device is never mapped
  Result unmappable_code{};
  bool strict = true;          ///< FAKECUDA_STRICT=0: for what a real driver lets pass
  bool implicit_sync = false;  ///< FAKECUDA_IMPLICIT_SYNC=1: to close others' memory waits for all streams
  unsigned awaited = 0;        ///< FAKECUDA_AWAITED: others that wait for each record of an event
  std::string failing_call;    ///< FAKECUDA_FAIL=call:nth:code: that call fails the nth time, from 1
  int failing_nth = 0;
  int failing_times = 1;  ///< FAKECUDA_FAIL_TIMES: and so many times in a row
  Result failing_code{};
  bool sticky = false;  ///< FAKECUDA_STICKY=1: and from then on every call, as where a context is lost

  bool sees(Device number) const { return number >= 0 && static_cast<std::size_t>(number) < visible.size(); }
  /// Which of the devices has this number here, and what number one has here.
  int device_of(Device number) const { return visible.at(static_cast<std::size_t>(number)); }
  Device number_of(int device) const;
  bool reaches(int from, int to) const;
};

const Machine& machine();

Uuid uuid_of(int device);

/// At the start of every function of the driver: whether it is to fail, by injection, since cuInit has not been called,
/// or since streams are being captured.
Result entered(const char* call);
/// The same where a context must be current.
Result entered_in_context(const char* call);
/// Of a call that a graph would not hold: it fails where there are captures that the thread is to mind, and they do.
Result minding_captures(const char* call);
/// cuInit succeeded.
void set_initialised();

/// Ends the process: whoever called has made a mistake that a real driver might let pass, or punish later.
[[noreturn]] void mistake(const std::string& what);

/// A word that no other process, and no other object of this one, has.
std::uint64_t unique_word();

/// The device of the context that is current on this thread; -1: none is.
int current_device();

/// What still exists, to be found by the leak checks.
void count_live(int device, const char* what, int change);
/// Each kind of thing on this device that still exists, as text; -1: on any.
std::string live(int device);

}  // namespace rondo::stand_in
