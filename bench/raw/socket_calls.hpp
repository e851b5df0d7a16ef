#pragma once

#include <memory>

#include "bench/point_to_point.hpp"
#include "bench/raw/socket_ranks.hpp"

namespace rondo::bench {

/// `Wire` over bare sockets; elements of any type.
class RawWire {
 public:
  explicit RawWire(SocketRanks& ranks) : ranks_(&ranks) {}

  template <typename T>
  void send(std::span<T> data, int to) {
    ranks_->send(to, std::as_bytes(data));
  }
  template <typename T>
  void recv(std::span<T> data, int from) {
    ranks_->recv(from, std::as_writable_bytes(data));
  }
  template <typename T>
  void send_window(std::span<T> data, int to, int window) {
    for (int i = 0; i < window; ++i) send(data, to);
  }
  template <typename T>
  void recv_window(std::span<T> data, int from, int) {
    recv(data, from);
  }

 private:
  SocketRanks* ranks_;
};

/// Every operation with the fewest bytes through sockets, each straight from who has it to who wants it. Sums are made
/// in the order of ranks.
std::unique_ptr<Exercise> bare_exercise(SocketRanks& ranks, const Settings& settings, const Shape& shape);

}  // namespace rondo::bench
