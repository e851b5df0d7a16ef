#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transport/descriptor.hpp"

namespace rondo::detail {

/// Where a rank's data connections are made to, as it tells the others at the meeting point.
struct Address {
  std::string host_id;    ///< of the kernel and network namespace: equal ids may reach each other's Unix sockets
  std::string unix_name;  ///< abstract; empty: it does not listen there
  std::string tcp;        ///< "127.0.0.1:4711", "[::1]:4711"; empty: it does not listen there
  int cores = 1;          ///< of its host, or of the container that it runs in
  std::string affinity;   ///< of those, the ones it may run on, as `own_affinity` says; empty: not known
  std::string transport = "auto";    ///< its RONDO_TRANSPORT
  std::string tuning = "no rules";   ///< in its RONDO_TUNING_FILE, as tuning_summary says
  std::size_t unexpected_bytes = 0;  ///< its RONDO_UNEXPECTED_BYTES, which the others count on

  /// Whether it may share memory with others of its host.
  bool shares() const noexcept;

  std::string pack() const;
  /// Throws Error{protocol} for what `pack` does not make.
  static Address unpack(std::string_view text);

  friend bool operator==(const Address&, const Address&) = default;
};

/// The ranks of a machine, and the cores that they have together.
struct Machine {
  int ranks = 0;
  int cores = 0;
  bool shares_cores() const noexcept { return ranks > cores; }
};
/// Of each kernel, by `kernel_of`: ranks in several containers of a machine share its cores, too. Ranks that are each
/// bound to a core of their own have as many together, ranks bound to the same core have one.
std::map<std::string_view, Machine> machines(std::span<const Address> addresses);

/// How many of the ranks before this one are of the same kernel.
int place_on_machine(std::span<const Address> addresses, int rank);

/// Of each rank: its place among those that may run on the same cores as this one, and on no others; -1: it may not.
/// The rank itself may.
std::vector<int> core_places(std::span<const Address> addresses, int rank);

/// What of a `host_id` all network namespaces of a machine have in common; all of it where that is not known.
std::string_view kernel_of(std::string_view host_id) noexcept;

/// Whether ranks share cores on some machine. Every rank gets the same answer from one table.
bool oversubscribed(std::span<const Address> addresses);

/// Throws Error{bad_configuration}, the same on every rank, where they promise each other different memory, are to
/// talk by different transports, or have different tuning rules.
void check_same_settings(std::span<const Address> addresses);

/// Of each rank: the lowest rank of the same host, if both may share memory; -1 for one that does not.
std::vector<int> hosts(std::span<const Address> addresses);

/// The `host_id` of this process. Only a hint: the handshake proves whom a connection reached.
std::string host_id();

/// Whether processes with these `host_id`s run on one machine, in whatever containers.
bool same_kernel(std::string_view host_id, std::string_view other) noexcept;

/// Why ranks with these `host_id`s, which differ, do not share memory.
std::string_view apart(std::string_view host_id, std::string_view other);

/// A socket on its way to the rank's data port, by its Unix socket or by TCP. Empty: there is none, `cause` says why.
Descriptor call(const Address& to, bool over_unix, std::string& cause);

}  // namespace rondo::detail
