#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "bench/measure.hpp"
#include "bench/pattern.hpp"
#include "bench/settings.hpp"

namespace rondo::bench {

/// How two ranks exchange messages, whatever library carries them.
///
/// `data` are what `Elements::given` gives, or a std::span:
/// - `send(data, to)` and `recv(data, from)` return when the buffer may be used again.
/// - `send_window(data, to, window)` has all of `window` messages, each the whole of `data`, in flight at once;
///   `recv_window(data, from, window)` receives them one behind the other in `data`.
template <typename W, typename T, typename Data>
concept Wire = requires(W& wire, Data data, std::span<T> answer, int rank, int window) {
  wire.send(data, rank);
  wire.recv(data, rank);
  wire.send_window(data, rank, window);
  wire.recv_window(data, rank, window);
  wire.send(answer, rank);
  wire.recv(answer, rank);
};

/// What messages are made of: the first `count` elements of memory of the host. DeviceElements are the other kind.
template <typename T, typename Memory = std::vector<T>>
class HostElements {
 public:
  explicit HostElements(std::size_t count) : HostElements(Memory(count), count) {}
  HostElements(Memory memory, std::size_t count) : memory_(std::move(memory)), count_(count) {}

  std::span<T> host() { return {memory_.data(), count_}; }
  std::span<const T> host() const { return {memory_.data(), count_}; }
  std::span<T> given() { return host(); }
  void put() {}
  void get() const {}

 private:
  Memory memory_;
  std::size_t count_;
};

/// Rank 0 sends, rank 1 answers with as much. Other ranks do nothing.
template <typename T, typename Elements, Wire<T, decltype(std::declval<Elements>().given())> W>
class PingPong final : public Exercise {
 public:
  /// `sent` and `received` are of one length.
  PingPong(W wire, int rank, Elements sent, Elements received)
      : wire_(std::move(wire)), rank_(rank), sent_(std::move(sent)), received_(std::move(received)) {}

  void prepare(Contents) override {
    fill(sent_.host(), values_of_rank<T>(ReduceKind::none, rank_, 2));
    clear(received_.host());
    sent_.put();
    received_.put();
  }

  void run() override {
    if (rank_ == 0) wire_.send(sent_.given(), 1);
    if (rank_ <= 1) wire_.recv(received_.given(), 1 - rank_);
    if (rank_ == 1) wire_.send(sent_.given(), 0);
  }

  std::size_t wrong() const override {
    if (rank_ > 1) return 0;
    received_.get();
    return count_wrong(received_.host(), values_of_rank<T>(ReduceKind::none, 1 - rank_, 2));
  }

  double scale() const override { return rank_ == 0 ? 0.5 : 0; }

 private:
  W wire_;
  int rank_;
  Elements sent_;
  Elements received_;
};

/// Rank 0 sends a window of messages, rank 1 answers with one element when it has them all.
template <typename T, typename Elements, Wire<T, decltype(std::declval<Elements>().given())> W>
class Stream final : public Exercise {
 public:
  /// `message` is rank 0's, `received` rank 1's, with room for the window; other ranks need neither.
  Stream(W wire, int rank, int window, Elements message, Elements received)
      : wire_(std::move(wire)),
        rank_(rank),
        window_(window),
        message_(std::move(message)),
        received_(std::move(received)) {}

  void prepare(Contents) override {
    fill(message_.host(), values_of_rank<T>(ReduceKind::none, 0, 2));
    clear(received_.host());
    message_.put();
    received_.put();
  }

  void run() override {
    if (rank_ == 0) {
      wire_.send_window(message_.given(), 1, window_);
      wire_.recv(std::span<T>(answer_), 1);
    } else if (rank_ == 1) {
      wire_.recv_window(received_.given(), 0, window_);
      wire_.send(std::span<T>(answer_), 0);
    }
  }

  std::size_t wrong() const override {
    received_.get();
    const std::span<const T> received = received_.host();
    std::size_t wrong = 0;
    const auto expected = values_of_rank<T>(ReduceKind::none, 0, 2);
    const std::size_t count = received.size() / static_cast<std::size_t>(window_);
    for (std::size_t begin = 0; count > 0 && begin < received.size(); begin += count)
      wrong += count_wrong(received.subspan(begin, count), expected);
    return wrong;
  }

  double scale() const override { return rank_ == 0 ? 1.0 / window_ : 0; }

 private:
  W wire_;
  int rank_;
  int window_;
  Elements message_;
  Elements received_;
  std::array<T, 1> answer_{};
};

/// `latency` or `bandwidth` between ranks 0 and 1. `elements(count)` makes the memory of so many.
template <typename T, typename W, typename MakeElements>
std::unique_ptr<Exercise> point_to_point_exercise(W wire, int rank, const Settings& settings, const Shape& shape,
                                                  const MakeElements& elements) {
  using Elements = decltype(elements(shape.count));
  if (settings.operation == Operation::latency) {
    return std::make_unique<PingPong<T, Elements, W>>(std::move(wire), rank, elements(shape.count),
                                                      elements(shape.count));
  }
  const int window = window_for(settings, shape.bytes);
  return std::make_unique<Stream<T, Elements, W>>(
      std::move(wire), rank, window, elements(rank == 0 ? shape.count : 0),
      elements(rank == 1 ? shape.count * static_cast<std::size_t>(window) : 0));
}

/// The same in the host's memory.
template <typename T, typename W>
std::unique_ptr<Exercise> point_to_point_exercise(W wire, int rank, const Settings& settings, const Shape& shape) {
  return point_to_point_exercise<T>(std::move(wire), rank, settings, shape,
                                    [](std::size_t count) { return HostElements<T>(count); });
}

}  // namespace rondo::bench
