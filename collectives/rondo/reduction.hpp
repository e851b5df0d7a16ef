#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <rondo/export.hpp>
#include <rondo/op.hpp>
#include <rondo/port.hpp>

namespace rondo {

/// An operator whose types are erased: what a collective carries down to where bytes are combined.
///
/// It owns the callable, so state lives as long as the operation. Predefined operators need no allocation and
/// run loops compiled into the library; callables run a loop compiled where they are passed. Movable, not
/// copyable.
class Reduction {
 public:
  /// The loop of an operator: see `combine`.
  using Combine = void (*)(void* state, const std::byte* own, const std::byte* other, std::byte* into,
                           std::size_t count, Side side);

  /// No reduction: for the collectives that only move elements.
  Reduction() = default;

  template <Element T, ReduceOp<T> Op>
  static Reduction of(Op op);

  ReduceKind kind() const noexcept { return kind_; }
  bool commutative() const noexcept { return commutative_; }
  std::size_t element_bytes() const noexcept { return element_bytes_; }

  /// The same on all ranks that pass the same type of callable; 0 for predefined operators.
  std::uint64_t operator_hash() const noexcept { return operator_hash_; }

  /// `into[i] = own[i] (op) other[i]`, `side` telling on which side of the operator `other` stands. `own` is `into` or
  /// overlaps neither of the others, nor do these two each other. No alignment is asked for. Throws what the callable
  /// throws.
  void combine(const std::byte* own, const std::byte* other, std::byte* into, std::size_t count, Side side) const {
    combine_(state_.get(), own, other, into, count, side);
  }

  /// The last pass over combined elements: `avg` divides by the number of ranks, the others do nothing.
  RONDO_EXPORT void finish(std::byte* data, std::size_t count, int ranks) const;

 private:
  struct Destroy {
    void (*state)(void*);
    void operator()(void* pointer) const { state(pointer); }
  };

  RONDO_EXPORT static Combine predefined(ElementType type, ReduceKind kind) noexcept;

  Combine combine_ = nullptr;
  std::unique_ptr<void, Destroy> state_;
  std::uint64_t operator_hash_ = 0;
  std::size_t element_bytes_ = 0;
  ElementType type_ = ElementType::bytes;
  ReduceKind kind_ = ReduceKind::none;
  bool commutative_ = true;
};

namespace detail {

/// FNV-1a over the mangled name, which compilers that share the Itanium ABI agree on.
template <typename Op>
std::uint64_t hash_of_type() {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char character : std::string_view(typeid(Op).name())) {
    hash = (hash ^ static_cast<unsigned char>(character)) * 0x100000001b3U;
  }
  return hash;
}

template <typename T>
T load(const std::byte* from) {
  T element;
  std::memcpy(static_cast<void*>(&element), from, sizeof(T));
  return element;
}

/// The loop behind every operator, in the form that compilers vectorise. Elements are loaded and stored bytewise, since
/// neither a link's buffer nor pooled scratch is aligned for any type.
template <typename T, Side side, typename Op>
void combine_apart(Op& op, const std::byte* __restrict own, const std::byte* __restrict other,
                   std::byte* __restrict into, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const T left = load<T>((side == Side::left ? other : own) + i * sizeof(T));
    const T right = load<T>((side == Side::left ? own : other) + i * sizeof(T));
    const T result = static_cast<T>(op(left, right));
    std::memcpy(into + i * sizeof(T), static_cast<const void*>(&result), sizeof(T));
  }
}

/// The same with `own` and `into` one memory, which the compiler must know to vectorise it.
template <typename T, Side side, typename Op>
void combine_into(Op& op, std::byte* __restrict into, const std::byte* __restrict other, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const T left = load<T>((side == Side::left ? other : into) + i * sizeof(T));
    const T right = load<T>((side == Side::left ? into : other) + i * sizeof(T));
    const T result = static_cast<T>(op(left, right));
    std::memcpy(into + i * sizeof(T), static_cast<const void*>(&result), sizeof(T));
  }
}

template <typename T, Side side, typename Op>
void combine_on_side(Op& op, const std::byte* own, const std::byte* other, std::byte* into, std::size_t count) {
  if (own == into) {
    combine_into<T, side>(op, into, other, count);
  } else {
    combine_apart<T, side>(op, own, other, into, count);
  }
}

template <typename T, typename Op>
void combine(Op& op, const std::byte* own, const std::byte* other, std::byte* into, std::size_t count, Side side) {
  if (side == Side::right) {
    combine_on_side<T, Side::right>(op, own, other, into, count);
  } else {
    combine_on_side<T, Side::left>(op, own, other, into, count);
  }
}

}  // namespace detail

template <Element T, ReduceOp<T> Op>
Reduction Reduction::of(Op op) {
  Reduction reduction;
  reduction.element_bytes_ = sizeof(T);
  reduction.type_ = element_type_of<T>;
  reduction.commutative_ = rondo::commutative<Op>;
  if constexpr (detail::PredefinedOp<Op>) {
    reduction.kind_ = Op::kind;
    reduction.combine_ = predefined(element_type_of<T>, Op::kind);
  } else {
    reduction.kind_ = ReduceKind::custom;
    reduction.operator_hash_ = detail::hash_of_type<Op>();
    reduction.state_ = {new Op(std::move(op)), Destroy{[](void* state) { delete static_cast<Op*>(state); }}};
    reduction.combine_ = [](void* state, const std::byte* own, const std::byte* other, std::byte* into,
                            std::size_t count,
                            Side side) { detail::combine<T>(*static_cast<Op*>(state), own, other, into, count, side); };
  }
  return reduction;
}

}  // namespace rondo
