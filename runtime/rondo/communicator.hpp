#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>

#include <rondo/any_span.hpp>
#include <rondo/device_span.hpp>
#include <rondo/element_type.hpp>
#include <rondo/export.hpp>
#include <rondo/status.hpp>
#include <rondo/work.hpp>

namespace rondo {

namespace detail {
class Engine;
class Group;
}  // namespace detail

/// Some ranks of a job that talk among themselves, as seen by one of them. Ranks count from 0 within each communicator.
/// Messages and collectives of different communicators never meet. No connection of its own: making one is cheap.
///
/// Any thread may use any communicator; two threads in collectives on one communicator at once is an error
/// (Errc::concurrent_use), and a thread is in a collective that it started until that has finished, whoever waits for
/// it. Point-to-point calls of many threads on one communicator are fine.
///
/// When the last communicator is gone, and every Work has been waited for or is gone, too, this rank's part in the job
/// ends: it says goodbye to the others. It does not wait for them.
class RONDO_EXPORT Communicator {
 public:
  /// An inert handle, as those get which are no members of a new communicator.
  Communicator() noexcept;
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  /// This process is a member: every other call needs that and throws Errc::not_initialized otherwise.
  bool member() const noexcept { return group_ != nullptr; }
  explicit operator bool() const noexcept { return member(); }

  int rank() const;
  int size() const;

  // New communicators. Each is a collective call: every member of this one makes it, in the same order.

  /// The given ranks, in the given order. All members call it with the same list; those outside get an inert handle.
  Communicator subgroup(std::span<const int> ranks);
  Communicator subgroup(std::initializer_list<int> ranks) { return subgroup(std::span(ranks.begin(), ranks.size())); }
  /// Members with the same color, ordered by key and then by rank. A negative color gets an inert handle.
  Communicator split(int color, int key = 0);
  /// The same members, apart from this communicator.
  Communicator dup();

  // Point to point. Messages with the same source and tag arrive in the order in which they were sent.

  /// Returns when `data` may be changed: a short message may be on its way, a long one has been received.
  /// Throws Errc::timed_out at the deadline (RONDO_TIMEOUT): two ranks that both `send` first wait for each other.
  template <typename T, std::size_t N>
  void send(std::span<T, N> data, int to, Tag tag = Tag{0}) {
    send_bytes(bytes_of(data, "send"), type_of<T>(), to, tag);
  }
  template <typename T, std::size_t N>
  [[nodiscard]] Work isend(std::span<T, N> data, int to, Tag tag = Tag{0}) {
    return start_send(data, to, tag, "isend");
  }

  /// Receives into `data`, which may be longer than the message. `from` may be `any_source`, `tag` may be `any_tag`.
  /// Throws Errc::truncated (the message is longer), Errc::type_mismatch, Errc::peer_failed (it has left, or died; of
  /// any source: all others have), Errc::timed_out.
  template <typename T, std::size_t N>
  Status recv(std::span<T, N> data, int from, Tag tag = Tag{0}) {
    return recv_bytes(bytes_of(data, "recv"), type_of<T>(), from, tag);
  }
  template <typename T, std::size_t N>
  [[nodiscard]] Work irecv(std::span<T, N> data, int from, Tag tag = Tag{0}) {
    return start_recv(data, from, tag, "irecv");
  }

  /// Sends and receives at once, so that neighbours can exchange without a deadlock.
  template <typename T, std::size_t N, typename U, std::size_t M>
  Status sendrecv(std::span<T, N> out, int to, std::span<U, M> in, int from, Tag tag = Tag{0}) {
    return sendrecv_bytes(bytes_of(out, "sendrecv"), type_of<T>(), to, bytes_of(in, "sendrecv"), type_of<U>(), from,
                          tag);
  }

  // The same with elements in the memory of a device, on either side or on both. A send reads, and a receive writes,
  // when what was queued on the span's stream before the call is done; neither waits for it. `Work::wait_on` instead of
  // `Work::wait` lets a stream wait for what has been received instead of the host.
  //
  // Throws Errc::cuda when the driver refuses, Errc::invalid_argument for memory of the host.

  template <typename T>
  void send(device_span<T> data, int to, Tag tag = Tag{0}) {
    start_send(data, to, tag, "send").wait();
  }
  template <typename T>
  [[nodiscard]] Work isend(device_span<T> data, int to, Tag tag = Tag{0}) {
    return start_send(data, to, tag, "isend");
  }
  template <typename T>
  Status recv(device_span<T> data, int from, Tag tag = Tag{0}) {
    Work work = start_recv(data, from, tag, "recv");
    work.wait();
    return work.status();
  }
  template <typename T>
  [[nodiscard]] Work irecv(device_span<T> data, int from, Tag tag = Tag{0}) {
    return start_recv(data, from, tag, "irecv");
  }
  template <typename T, typename U>
  Status sendrecv(device_span<T> out, int to, device_span<U> in, int from, Tag tag = Tag{0}) {
    return exchange(out, to, in, from, tag);
  }
  template <typename T, typename U, std::size_t M>
  Status sendrecv(device_span<T> out, int to, std::span<U, M> in, int from, Tag tag = Tag{0}) {
    return exchange(out, to, in, from, tag);
  }
  template <typename T, std::size_t N, typename U>
  Status sendrecv(std::span<T, N> out, int to, device_span<U> in, int from, Tag tag = Tag{0}) {
    return exchange(out, to, in, from, tag);
  }

  // The same with elements on the side on which they have been found.

  template <typename T>
  void send(any_span<T> data, int to, Tag tag = Tag{0}) {
    start_send(data, to, tag, "send").wait();
  }
  template <typename T>
  [[nodiscard]] Work isend(any_span<T> data, int to, Tag tag = Tag{0}) {
    return start_send(data, to, tag, "isend");
  }
  template <typename T>
  Status recv(any_span<T> data, int from, Tag tag = Tag{0}) {
    return data.on_device() ? recv(data.device(), from, tag) : recv(data.host(), from, tag);
  }
  template <typename T>
  [[nodiscard]] Work irecv(any_span<T> data, int from, Tag tag = Tag{0}) {
    return start_recv(data, from, tag, "irecv");
  }
  template <typename T, typename U>
  Status sendrecv(any_span<T> out, int to, any_span<U> in, int from, Tag tag = Tag{0}) {
    return exchange(out, to, in, from, tag);
  }
  template <typename T, typename U>
  Status sendrecv(any_span<T> out, int to, device_span<U> in, int from, Tag tag = Tag{0}) {
    return exchange(out, to, in, from, tag);
  }
  template <typename T, typename U>
  Status sendrecv(device_span<T> out, int to, any_span<U> in, int from, Tag tag = Tag{0}) {
    return exchange(out, to, in, from, tag);
  }
  template <typename T, typename U, std::size_t M>
  Status sendrecv(any_span<T> out, int to, std::span<U, M> in, int from, Tag tag = Tag{0}) {
    return exchange(out, to, in, from, tag);
  }
  template <typename T, std::size_t N, typename U>
  Status sendrecv(std::span<T, N> out, int to, any_span<U> in, int from, Tag tag = Tag{0}) {
    return exchange(out, to, in, from, tag);
  }

  /// Waits for a message without receiving it: what `recv` with the returned source and tag would get.
  Status probe(int from = any_source, Tag tag = any_tag);
  /// The same without waiting.
  std::optional<Status> iprobe(int from = any_source, Tag tag = any_tag);

 private:
  friend struct CommunicatorAccess;

  Communicator(std::shared_ptr<detail::Engine> engine, detail::Group& group);

  template <typename T>
  static constexpr ElementType type_of() {
    using Value = std::remove_cv_t<T>;
    static_assert(Element<Value>, "rondo sends trivially copyable types that are no pointers");
    return element_type_of<Value>;
  }

  // `operation` is what the caller called.

  /// Of no more elements than memory can hold.
  template <typename T, std::size_t N>
  static auto bytes_of(std::span<T, N> data, const char* operation) {
    using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
    if (data.size() > std::size_t{PTRDIFF_MAX} / sizeof(T)) detail::bytes_of(data.size(), sizeof(T), operation);
    return std::span<Byte>(reinterpret_cast<Byte*>(data.data()), data.size() * sizeof(T));
  }
  template <typename T, std::size_t N>
  Work start_send(std::span<T, N> data, int to, Tag tag, const char* operation) {
    return isend_bytes(bytes_of(data, operation), type_of<T>(), to, tag, operation);
  }
  template <typename T>
  Work start_send(device_span<T> data, int to, Tag tag, const char* operation) {
    return isend_device(detail::DeviceBytes(data), type_of<T>(), to, tag, operation);
  }
  template <typename T>
  Work start_send(any_span<T> data, int to, Tag tag, const char* operation) {
    return data.on_device() ? start_send(data.device(), to, tag, operation)
                            : start_send(data.host(), to, tag, operation);
  }
  template <typename T, std::size_t N>
  Work start_recv(std::span<T, N> data, int from, Tag tag, const char* operation) {
    return irecv_bytes(bytes_of(data, operation), type_of<T>(), from, tag, operation);
  }
  template <typename T>
  Work start_recv(device_span<T> data, int from, Tag tag, const char* operation) {
    static_assert(!std::is_const_v<T>, "a receive writes");
    return irecv_device(detail::DeviceBytes(data), type_of<T>(), from, tag, operation);
  }
  template <typename T>
  Work start_recv(any_span<T> data, int from, Tag tag, const char* operation) {
    return data.on_device() ? start_recv(data.device(), from, tag, operation)
                            : start_recv(data.host(), from, tag, operation);
  }
  template <typename Out, typename In>
  Status exchange(Out out, int to, In in, int from, Tag tag) {
    check_exchange({reinterpret_cast<const std::byte*>(out.data()), out.size_bytes()},
                   {reinterpret_cast<const std::byte*>(in.data()), in.size_bytes()});
    Work received = start_recv(in, from, tag, "sendrecv");
    Work sent = start_send(out, to, tag, "sendrecv");
    received.wait();
    sent.wait();
    return received.status();
  }
  void check_exchange(std::span<const std::byte> out, std::span<const std::byte> in) const;
  void send_bytes(std::span<const std::byte> data, ElementType type, int to, Tag tag);
  Work isend_bytes(std::span<const std::byte> data, ElementType type, int to, Tag tag, const char* operation);
  Status recv_bytes(std::span<std::byte> data, ElementType type, int from, Tag tag);
  Work irecv_bytes(std::span<std::byte> data, ElementType type, int from, Tag tag, const char* operation);
  Work isend_device(const detail::DeviceBytes& data, ElementType type, int to, Tag tag, const char* operation);
  Work irecv_device(const detail::DeviceBytes& data, ElementType type, int from, Tag tag, const char* operation);
  Status sendrecv_bytes(std::span<const std::byte> out, ElementType out_type, int to, std::span<std::byte> in,
                        ElementType in_type, int from, Tag tag);
  void close() noexcept;

  std::shared_ptr<detail::Engine> engine_;
  detail::Group* group_ = nullptr;
};

}  // namespace rondo
