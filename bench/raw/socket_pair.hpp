#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <span>

#include "bench/measure.hpp"

namespace rondo::bench {

/// Two processes with one TCP connection over loopback between them, and nothing else: no frame, no matching.
/// What sockets alone can do, as the measure for a library on top of them.
///
/// Sockets do not block: send and recv are called until all bytes have gone.
class SocketPair final : public Fabric {
 public:
  /// Forks: the caller goes on as rank 0, its child returns from here as rank 1. Throws std::system_error.
  SocketPair();
  ~SocketPair() override;

  int rank() const override { return rank_; }
  int size() const override { return 2; }
  void barrier() override;
  void fold(std::span<double> values, Fold how) override;

  /// Both throw std::system_error when the other process is gone.
  void send(std::span<const std::byte> data) const;
  void recv(std::span<std::byte> data) const;

  /// Rank 0: waits for the child. True if it ended well.
  bool join();

 private:
  void connect_as_parent(int listener);
  void connect_as_child(int listener);

  int rank_ = 0;
  int socket_ = -1;
  pid_t child_ = -1;
};

/// `Wire` over the pair; elements of any type.
class RawWire {
 public:
  explicit RawWire(const SocketPair& pair) : pair_(&pair) {}

  template <typename T>
  void send(std::span<T> data, int) {
    pair_->send(std::as_bytes(data));
  }
  template <typename T>
  void recv(std::span<T> data, int) {
    pair_->recv(std::as_writable_bytes(data));
  }
  template <typename T>
  void send_window(std::span<T> data, int, int window) {
    for (int i = 0; i < window; ++i) pair_->send(std::as_bytes(data));
  }
  template <typename T>
  void recv_window(std::span<T> data, int, int) {
    pair_->recv(std::as_writable_bytes(data));
  }

 private:
  const SocketPair* pair_;
};

}  // namespace rondo::bench
