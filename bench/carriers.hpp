#pragma once

#include <string>
#include <utility>
#include <vector>

#include <rondo/communicator.hpp>

#include "bench/unshared.hpp"

namespace rondo::bench {

/// What carries messages between some pairs of ranks, and why nothing better does.
struct Carrier {
  std::string transport;  ///< "tcp"
  std::string reason;     ///< "another host"; empty: nothing is better
  std::vector<std::pair<int, int>> pairs;
  std::string long_messages = {};  ///< "by process_vm_readv"; empty: as all others

  friend bool operator==(const Carrier&, const Carrier&) = default;
};

/// What all that is measured goes by.
struct Ways {
  std::vector<Carrier> carriers = {};
  std::vector<Carrier> device_carriers = {};  ///< of the memory of devices
  Unshared unshared = {};
};

/// Of every pair of ranks, the lower one first. Every rank calls it, and exchanges a first message with each of the
/// others, to see; rank 0 hears of all.
std::vector<Carrier> carriers_in_use(Communicator& world);

/// The same of the memory of their devices: the way (`DeviceWay`), and why it is through the host. They exchange a
/// first message that lies there.
std::vector<Carrier> device_carriers_in_use(Communicator& world);

/// "tcp"; "shm+tcp" where pairs differ; "none" for a rank alone.
std::string names_of(const std::vector<Carrier>& carriers);

/// A line for each: "# tcp: 0-2 1-2 (another host)". Nothing where all pairs are alike, nothing is better, and long
/// messages go as others do.
std::string carrier_lines(const std::vector<Carrier>& carriers);
/// "# memory of devices, NVLink: 0-2 1-2".
std::string device_carrier_lines(const std::vector<Carrier>& carriers);

}  // namespace rondo::bench
