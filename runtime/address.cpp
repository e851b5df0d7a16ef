#include "runtime/address.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include <rondo/error.hpp>

#include "runtime/endpoint.hpp"
#include "runtime/log.hpp"
#include "transport/system_errors.hpp"

namespace rondo::detail {

namespace {

template <typename Number>
Number number_of(const std::string& text, Number least, std::string_view what) {
  Number number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed == std::errc{} && end == text.data() + text.size() && number >= least) return number;
  throw Error(Errc::protocol,
              fmt::format("the address of a rank says '{}' {}, wanted a number from {}", printable(text), what, least));
}

template <typename Value>
void check_same(std::span<const Address> addresses, Value Address::*setting, std::string_view name) {
  const auto other = std::find_if(addresses.begin(), addresses.end(),
                                  [&](const Address& address) { return address.*setting != addresses[0].*setting; });
  if (other == addresses.end()) return;
  throw Error(Errc::bad_configuration,
              fmt::format("{} differs between ranks: rank 0 has {}, rank {} has {}, wanted one value", name,
                          addresses[0].*setting, other - addresses.begin(), (*other).*setting));
}

}  // namespace

std::string Address::pack() const {
  return fmt::format("7\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n", host_id, unix_name, tcp, cores, affinity, transport, tuning,
                     unexpected_bytes);
}

Address Address::unpack(std::string_view text) {
  auto next = [rest = text]() mutable {
    const auto end = rest.find('\n');
    if (end == std::string_view::npos) {
      throw Error(Errc::protocol, fmt::format("the address of a rank is unreadable: got '{}'", printable(rest)));
    }
    const std::string_view taken = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    return std::string(taken);
  };
  if (const std::string version = next(); version != "7") {
    throw Error(Errc::protocol, fmt::format("the address of a rank has version '{}', wanted '7'", printable(version)));
  }
  Address address;
  address.host_id = next();
  address.unix_name = next();
  address.tcp = next();
  address.cores = number_of(next(), 1, "cores");
  address.affinity = next();
  address.transport = next();
  address.tuning = next();
  address.unexpected_bytes = number_of(next(), std::size_t{0}, "bytes for unexpected messages");
  return address;
}

bool Address::shares() const noexcept { return transport == "auto" || transport == "shm"; }

void check_same_settings(std::span<const Address> addresses) {
  check_same(addresses, &Address::unexpected_bytes, "RONDO_UNEXPECTED_BYTES");
  check_same(addresses, &Address::transport, "RONDO_TRANSPORT");
  check_same(addresses, &Address::tuning, "RONDO_TUNING_FILE");
}

std::vector<int> hosts(std::span<const Address> addresses) {
  std::map<std::string_view, int> first;
  std::vector<int> hosts;
  for (const Address& address : addresses) {
    const int rank = static_cast<int>(hosts.size());
    hosts.push_back(address.shares() ? first.try_emplace(address.host_id, rank).first->second : -1);
  }
  return hosts;
}

std::map<std::string_view, Machine> machines(std::span<const Address> addresses) {
  std::map<std::string_view, Machine> machines;
  std::map<std::string_view, std::string> affinities;  // of all ranks of a kernel together
  for (const Address& address : addresses) {
    const std::string_view kernel = kernel_of(address.host_id);
    Machine& machine = machines[kernel];
    machine.cores = machine.ranks++ == 0 ? address.cores : std::min(machine.cores, address.cores);
    std::string& together = affinities[kernel];
    together.resize(std::max(together.size(), address.affinity.size()), '0');
    for (std::size_t core = 0; core < address.affinity.size(); ++core) {
      if (address.affinity[core] == '1') together[core] = '1';
    }
  }
  for (auto& [kernel, machine] : machines) {
    const auto& together = affinities[kernel];
    const auto allowed = static_cast<int>(std::count(together.begin(), together.end(), '1'));
    if (allowed > 0) machine.cores = std::min(machine.cores, allowed);
  }
  return machines;
}

int place_on_machine(std::span<const Address> addresses, int rank) {
  const auto own = addresses.begin() + rank;
  return static_cast<int>(std::count_if(addresses.begin(), own, [&](const Address& other) {
    return kernel_of(other.host_id) == kernel_of(own->host_id);
  }));
}

std::vector<int> core_places(std::span<const Address> addresses, int rank) {
  const Address& own = addresses[static_cast<std::size_t>(rank)];
  std::vector<int> places;
  int next = 0;
  for (const Address& other : addresses) {
    const bool same = kernel_of(other.host_id) == kernel_of(own.host_id) && other.affinity == own.affinity;
    places.push_back(same ? next++ : -1);
  }
  return places;
}

bool oversubscribed(std::span<const Address> addresses) {
  const auto all = machines(addresses);
  return std::any_of(all.begin(), all.end(), [](const auto& kernel) { return kernel.second.shares_cores(); });
}

std::string host_id() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  struct stat network {};
  if (::stat("/proc/self/ns/net", &network) != 0) return boot;
  return fmt::format("{}/{}", boot, network.st_ino);
}

std::string_view kernel_of(std::string_view host_id) noexcept {
  const std::string_view kernel = host_id.substr(0, host_id.find('/'));
  return kernel.empty() ? host_id : kernel;
}

bool same_kernel(std::string_view host_id, std::string_view other) noexcept {
  return !host_id.empty() && !host_id.starts_with('/') && kernel_of(host_id) == kernel_of(other);
}

std::string_view apart(std::string_view host_id, std::string_view other) {
  return same_kernel(host_id, other) ? "another network namespace of this host" : "another host";
}

Descriptor call(const Address& to, bool over_unix, std::string& cause) {
  sockaddr_storage target{};
  socklen_t length = 0;
  if (over_unix) {
    length = unix_address(to.unix_name, reinterpret_cast<sockaddr_un&>(target));
  } else {
    const HostPort host_port = split_host_port(to.tcp, "address of a rank");
    const asio::ip::tcp::endpoint endpoint(asio::ip::make_address(host_port.host), host_port.port);
    length = static_cast<socklen_t>(endpoint.size());
    std::copy_n(reinterpret_cast<const std::byte*>(endpoint.data()), length, reinterpret_cast<std::byte*>(&target));
  }
  // A Unix socket connects at once or waits for room in the listener's queue, which the kernel of this host makes.
  const int type = SOCK_STREAM | SOCK_CLOEXEC | (over_unix ? 0 : SOCK_NONBLOCK);
  Descriptor socket(::socket(target.ss_family, type, 0));
  const auto connect = [&] {
    return socket ? ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&target), length) : -1;
  };
  int called = connect();
  while (called != 0 && errno == EINTR) called = connect();
  if (called != 0 && errno != EINPROGRESS) {
    cause = system_text(errno);
    return {};
  }
  // It would be refused there, too.
  if (over_unix && !same_user(socket.get())) {
    cause = "it is another user's";
    return {};
  }
  return socket;
}

}  // namespace rondo::detail
