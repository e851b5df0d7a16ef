#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "bench/measure.hpp"
#include "bench/two_cores.hpp"
#include "transport/descriptor.hpp"

namespace rondo::bench {

/// Bytes that go to another rank or come from it.
template <typename Byte>
struct SocketPart {
  int rank;
  std::span<Byte> bytes;
};
using Sent = SocketPart<const std::byte>;
using Received = SocketPart<std::byte>;

/// Processes with a TCP connection over loopback between every two, set as rondo sets its own, and nothing else: no
/// frame, no matching. What sockets alone can do, as the measure for a library on top of them. As with rondo's, short
/// parts that follow each other with nothing coming back go together.
///
/// Sockets do not block. Whoever waits looks again at those from which it expects something; with more ranks than
/// cores it gives its own, the first ranks the first one, up after each round without news, and where it waits for the
/// answer to a short part before the first.
class SocketRanks final : public Fabric {
 public:
  /// Forks: the caller goes on as rank 0, its children return from here as the others. Throws std::system_error.
  explicit SocketRanks(int ranks);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void barrier() override;
  void fold(std::span<double> values, Fold how) override;

  /// All of it at the same time, at most one part each way with each rank. `looks`: with more ranks than cores, so many
  /// rounds without news before it gives its core up: whoever is waited for is at work on another.
  /// Throws std::system_error when one of these is gone.
  void exchange(std::span<const Sent> sent, std::span<const Received> received, unsigned looks = 0);
  void send(int to, std::span<const std::byte> bytes);
  void recv(int from, std::span<std::byte> bytes);

 private:
  struct Connection {
    detail::Descriptor socket;
    int run = 0;                        ///< short parts sent since something came
    bool gathers = false;               ///< these wait for each other
    bool owes_acknowledgement = false;  ///< the other side's may
    int looked_in_vain = 0;             ///< since
  };

  Connection& connection(int rank) { return connections_[static_cast<std::size_t>(rank)]; }
  std::size_t send_some(const Sent& part);
  std::size_t receive_some(const Received& part);
  static void gather(Connection& connection, bool gathers);

  const int size_;
  const bool crowded_;
  int rank_ = 0;
  std::optional<OnCore> core_;
  unsigned rounds_ = 0;
  std::vector<Connection> connections_;  ///< by rank
  std::vector<Sent> sending_;
  std::vector<Received> receiving_;
};

}  // namespace rondo::bench
