#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <rondo/any_span.hpp>
#include <rondo/call.hpp>
#include <rondo/communicator.hpp>
#include <rondo/device_span.hpp>
#include <rondo/element_type.hpp>
#include <rondo/export.hpp>
#include <rondo/options.hpp>
#include <rondo/reduction.hpp>
#include <rondo/work.hpp>

namespace rondo::detail {

/// Whose memory a buffer is of, and the stream that a device uses it on.
struct BufferSide {
  bool on_device = false;
  CudaStream stream = nullptr;
  bool is_found = false;  ///< the caller does not know; of no elements nobody does
};

/// What collectives take as buffers: spans of the host's memory, of a device's, or of what has turned out to be either.
template <typename Span>
struct Elements {};
template <typename T, std::size_t N>
struct Elements<std::span<T, N>> {
  using type = T;
  using kind = std::span<std::byte>;
  static BufferSide side(std::span<T, N>) noexcept { return {}; }
};
template <typename T>
struct Elements<device_span<T>> {
  using type = T;
  using kind = device_span<std::byte>;
  static BufferSide side(device_span<T> span) noexcept { return {true, span.stream()}; }
};
template <typename T>
struct Elements<any_span<T>> {
  using type = T;
  using kind = any_span<std::byte>;
  static BufferSide side(any_span<T> span) noexcept { return {span.on_device(), span.stream(), true}; }
};

template <typename Span>
using value_of = typename Elements<Span>::type;
template <typename Span>
using kind_of = typename Elements<Span>::kind;

template <typename Span>
concept Output = requires {
  typename value_of<Span>;
}
&&Element<value_of<Span>>;

/// The element type of an input may be const or not: `std::span(x)` of a vector is as good as a span of const. Input
/// and output are spans of one kind.
template <typename In, typename Out>
concept InputFor = Output<Out> && requires {
  typename value_of<In>;
} && std::same_as<std::remove_const_t<value_of<In>>, value_of<Out>> && std::same_as<kind_of<In>, kind_of<Out>>;

/// A collective call with its element type erased: what the templates of the public face hand to the library, which
/// checks it, chooses an algorithm and runs it. Pointers and counts refer to what the caller keeps alive, but for
/// `counts` and `recv_counts`, which are copied before `start` returns.
struct CollectiveCall {
  // No aggregate: compilers clear one of this size by a loop of the processor that is slow to begin.
  CollectiveCall(Collective called, const Options& asked) : collective(called), options(asked) {}

  Collective collective;
  ElementType type = ElementType::bytes;
  std::size_t element_bytes = 0;

  const void* in = nullptr;
  std::size_t in_count = 0;
  void* out = nullptr;
  std::size_t out_count = 0;
  bool in_place = false;  ///< one buffer was given, as `out`; where the input lies in it depends on the collective

  BufferSide in_side, out_side;  ///< the same, where both have elements
  bool on_device() const noexcept { return in_side.on_device || out_side.on_device; }

  int root = -1;
  bool by_counts = false;                    ///< a v-form
  std::span<const std::size_t> counts;       ///< per rank; of all_to_all what I send to each
  std::span<const std::size_t> recv_counts;  ///< of all_to_all

  Reduction reduction;
  Options options;
};

template <Output Out>
CollectiveCall in_place_call(Collective collective, Out inout, const Options& options) {
  CollectiveCall call(collective, options);
  call.type = element_type_of<value_of<Out>>;
  call.element_bytes = sizeof(value_of<Out>);
  call.out = inout.data();
  call.out_count = inout.size();
  call.in_place = true;
  call.out_side = Elements<Out>::side(inout);
  return call;
}

template <Output Out, InputFor<Out> In>
CollectiveCall call_on(Collective collective, In in, Out out, const Options& options) {
  CollectiveCall call = in_place_call(collective, out, options);
  call.in_place = false;
  call.in = in.data();
  call.in_count = in.size();
  call.in_side = Elements<In>::side(in);
  return call;
}

template <typename T, typename Op>
CollectiveCall&& reducing(CollectiveCall&& call, Op op) {
  call.reduction = Reduction::of<T>(std::move(op));
  return std::move(call);
}

inline CollectiveCall&& rooted(CollectiveCall&& call, int root) {
  call.root = root;
  return std::move(call);
}

inline CollectiveCall&& by_counts(CollectiveCall&& call, std::span<const std::size_t> counts) {
  call.by_counts = true;
  call.counts = counts;
  return std::move(call);
}

inline CollectiveCall&& by_counts(CollectiveCall&& call, std::span<const std::size_t> send_counts,
                                  std::span<const std::size_t> recv_counts) {
  call.recv_counts = recv_counts;
  return by_counts(std::move(call), send_counts);
}

/// Runs the collective to its end. Throws the caller's mistakes at once and the world's failures when they come.
RONDO_EXPORT void run(Communicator& communicator, CollectiveCall&& call);

/// Starts the collective. Throws the caller's mistakes; the world's failures come out of `Work::wait`.
RONDO_EXPORT Work start(Communicator& communicator, CollectiveCall&& call);

}  // namespace rondo::detail
