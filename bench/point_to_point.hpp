#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "bench/measure.hpp"
#include "bench/pattern.hpp"

namespace rondo::bench {

/// How two ranks exchange messages, whatever library carries them.
///
/// - `send(data, to)` and `recv(data, from)` return when the buffer may be used again.
/// - `send_window(data, to, window)` has all of `window` messages, each the whole of `data`, in flight at once;
///   `recv_window(data, from, window)` receives them one behind the other in `data`.
template <typename W, typename T>
concept Wire = requires(W& wire, std::span<T> data, std::span<const T> message, int rank, int window) {
  wire.send(message, rank);
  wire.recv(data, rank);
  wire.send_window(message, rank, window);
  wire.recv_window(data, rank, window);
};

/// Rank 0 sends, rank 1 answers with as much. Other ranks do nothing.
template <typename T, Wire<T> W>
class PingPong final : public Exercise {
 public:
  PingPong(W wire, int rank, std::size_t count) : wire_(std::move(wire)), rank_(rank), sent_(count), received_(count) {}

  void prepare(Contents) override {
    fill(std::span(sent_), values_of_rank<T>(ReduceKind::none, rank_, 2));
    clear(std::span(received_));
  }

  void run() override {
    if (rank_ == 0) wire_.send(std::span<const T>(sent_), 1);
    if (rank_ <= 1) wire_.recv(std::span(received_), 1 - rank_);
    if (rank_ == 1) wire_.send(std::span<const T>(sent_), 0);
  }

  std::size_t wrong() const override {
    if (rank_ > 1) return 0;
    return count_wrong(std::span<const T>(received_), values_of_rank<T>(ReduceKind::none, 1 - rank_, 2));
  }

  double scale() const override { return rank_ == 0 ? 0.5 : 0; }

 private:
  W wire_;
  int rank_;
  std::vector<T> sent_;
  std::vector<T> received_;
};

/// Rank 0 sends a window of messages, rank 1 answers with one element when it has them all.
template <typename T, Wire<T> W>
class Stream final : public Exercise {
 public:
  Stream(W wire, int rank, std::size_t count, int window)
      : wire_(std::move(wire)), rank_(rank), window_(window), message_(rank == 0 ? count : 0) {
    if (rank == 1) received_.resize(count * static_cast<std::size_t>(window));
  }

  void prepare(Contents) override {
    fill(std::span(message_), values_of_rank<T>(ReduceKind::none, 0, 2));
    clear(std::span(received_));
  }

  void run() override {
    if (rank_ == 0) {
      wire_.send_window(std::span<const T>(message_), 1, window_);
      wire_.recv(std::span<T>(answer_), 1);
    } else if (rank_ == 1) {
      wire_.recv_window(std::span(received_), 0, window_);
      wire_.send(std::span<const T>(answer_), 0);
    }
  }

  std::size_t wrong() const override {
    std::size_t wrong = 0;
    const auto expected = values_of_rank<T>(ReduceKind::none, 0, 2);
    const std::size_t count = received_.size() / static_cast<std::size_t>(window_);
    for (std::size_t begin = 0; count > 0 && begin < received_.size(); begin += count)
      wrong += count_wrong(std::span(received_).subspan(begin, count), expected);
    return wrong;
  }

  double scale() const override { return rank_ == 0 ? 1.0 / window_ : 0; }

 private:
  W wire_;
  int rank_;
  int window_;
  std::vector<T> message_;
  std::vector<T> received_;
  std::array<T, 1> answer_{};
};

}  // namespace rondo::bench
