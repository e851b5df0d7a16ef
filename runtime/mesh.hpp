#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <rondo/config.hpp>

#include "runtime/address.hpp"
#include "runtime/connector.hpp"
#include "runtime/control.hpp"
#include "runtime/identity.hpp"
#include "runtime/log.hpp"
#include "transport/descriptor.hpp"
#include "transport/handshake.hpp"

namespace rondo::detail {

class Engine;
class Link;

/// Picks a transport for each pair of ranks and makes the links, on first use: shared memory between ranks of one host,
/// or a Unix socket where that cannot be had; TCP otherwise, or when RONDO_TRANSPORT says so. Every connection is
/// authenticated before its first frame.
/// Nowhere else is decided which transport it is.
class Mesh final : public Connector {
 public:
  /// Listens, where it is by TCP on what this host looks like from the meeting point. Throws Error.
  Mesh(const Identity& identity, const Config& config, const Log& log, const Control& control);
  ~Mesh() override;

  /// What the others need to know; `tuning` of this rank's own rules.
  std::string packed_address(std::string tuning) {
    mine_.tuning = std::move(tuning);
    return mine_.pack();
  }
  /// After all have told: from now on connections can be made.
  void open(const Control& control, Engine& engine);
  /// Of this host, then.
  Machine machine() const { return machines(addresses_).at(kernel_of(mine_.host_id)); }
  int place_on_machine() const { return detail::place_on_machine(addresses_, identity_.rank); }

  void connect(int world_rank) override;
  std::size_t poll() override;
  bool busy() const override { return !connecting_.empty() || !accepted_.empty(); }
  bool may_reach(int world_rank, Time called_by) const override;
  void watch(WakeList& wakes) const override;

 private:
  struct Attempt;

  bool same_host(const Address& other) const { return other.host_id == mine_.host_id && !other.unix_name.empty(); }
  void start(int world_rank, const std::string& no_unix);
  HandshakeTerms terms(int peer) const;
  std::size_t accept_from(const Descriptor& listener);
  static bool is_stranger(const std::unique_ptr<Attempt>& attempt);
  std::vector<std::unique_ptr<Attempt>>::const_iterator oldest_stranger() const;
  bool is_full() const;
  bool has_room() const;
  bool turn_away(const Descriptor& listener, int error);
  std::string no_shared_memory() const;
  std::string no_shared_memory(const Attempt& attempt) const;
  bool step(Attempt& attempt);
  bool shake_hands(Attempt& attempt);
  void decide(Attempt& attempt);
  void established(Attempt& attempt);
  void tell_refusal(const std::string& reason);
  void attach(Attempt& attempt);
  void tell(const Attempt& attempt, const Link& link, const std::string& reason);
  void failed(Attempt& attempt, const std::string& cause);

  const Identity identity_;
  const Config config_;
  const Log log_;
  Address mine_;
  Descriptor unix_listener_;
  Descriptor tcp_listener_;
  Descriptor spare_;  // closed for the moment in which somebody is turned away

  Engine* engine_ = nullptr;
  std::string job_id_;
  std::uint32_t attempt_ = 0;
  JobKey key_;
  std::vector<Address> addresses_;

  std::map<int, std::unique_ptr<Attempt>> connecting_;  // by rank: started here
  std::vector<std::unique_ptr<Attempt>> accepted_;      // started by others
  int refusals_ = 0;
};

}  // namespace rondo::detail
