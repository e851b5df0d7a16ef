#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <rondo/export.hpp>
#include <rondo/op.hpp>
#include <rondo/port.hpp>
#include <rondo/task.hpp>

namespace rondo {

/// An operator whose types are erased: what a collective carries down to where bytes are combined.
///
/// It owns the callable, so state lives as long as the operation. Predefined operators need no allocation and
/// run loops compiled into the library; callables run a loop compiled where they are passed. Movable, not
/// copyable.
class Reduction {
 public:
  /// The loop of an operator: see `fold`.
  using Fold = void (*)(void* state, const std::byte* const* inputs, std::size_t input_count, std::byte* into,
                        std::size_t count);

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
    const std::byte* const inputs[] = {side == Side::right ? own : other, side == Side::right ? other : own};
    fold_(state_.get(), inputs, 2, into, count);
  }

  /// `into[i] = inputs[0][i] (op) inputs[1][i] (op) ...`, from the left, in one pass over memory; at least one input.
  /// float16 and bfloat16 are accumulated in float and rounded once, unless `round_every_step`. `into` may be one of
  /// the inputs, and overlaps none otherwise. No alignment is asked for. Throws what the callable throws.
  void fold(std::span<const std::byte* const> inputs, std::byte* into, std::size_t count) const {
    if (rounds_every_step_) return fold_in_steps(inputs, into, count);
    fold_(state_.get(), inputs.data(), inputs.size(), into, count);
  }

  /// From now on `fold` computes what `combine` does, applied again and again.
  void round_every_step() noexcept {
    rounds_every_step_ = type_ == ElementType::float16 || type_ == ElementType::bfloat16;
  }

  /// The last pass over combined elements: `avg` divides by the number of ranks, the others do nothing.
  RONDO_EXPORT void finish(std::byte* data, std::size_t count, int ranks) const;

 private:
  struct Destroy {
    void (*state)(void*);
    void operator()(void* pointer) const { state(pointer); }
  };

  RONDO_EXPORT void fold_in_steps(std::span<const std::byte* const> inputs, std::byte* into, std::size_t count) const;
  RONDO_EXPORT static Fold predefined(ElementType type, ReduceKind kind) noexcept;

  Fold fold_ = nullptr;
  std::unique_ptr<void, Destroy> state_;
  std::uint64_t operator_hash_ = 0;
  std::size_t element_bytes_ = 0;
  ElementType type_ = ElementType::bytes;
  ReduceKind kind_ = ReduceKind::none;
  bool commutative_ = true;
  bool rounds_every_step_ = false;
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

/// Operands and results lie on the stack, each some times over, also on that of the helper thread.
constexpr std::size_t kLargestElement = std::size_t{1} << 20;

template <typename T>
T load(const std::byte* from) {
  static_assert(sizeof(T) <= kLargestElement, "rondo combines elements of up to 1 MiB: of larger ones, their parts");
  std::array<std::byte, sizeof(T)> bytes;
  std::memcpy(bytes.data(), from, sizeof(T));
  return std::bit_cast<T>(bytes);
}

/// Two operands of a callable, in the form that compilers vectorise. Elements are loaded and stored bytewise, since
/// neither a link's buffer nor pooled scratch is aligned for any type.
template <typename T, typename Op>
void combine_apart(Op& op, const std::byte* __restrict left, const std::byte* __restrict right,
                   std::byte* __restrict into, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const T result = static_cast<T>(op(load<T>(left + i * sizeof(T)), load<T>(right + i * sizeof(T))));
    std::memcpy(into + i * sizeof(T), static_cast<const void*>(&result), sizeof(T));
  }
}

/// The same with one operand in `into`, which the compiler must know to vectorise it; the other stands on `side`.
template <typename T, Side side, typename Op>
void combine_into(Op& op, std::byte* __restrict into, const std::byte* __restrict other, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const T left = load<T>((side == Side::left ? other : into) + i * sizeof(T));
    const T right = load<T>((side == Side::left ? into : other) + i * sizeof(T));
    const T result = static_cast<T>(op(left, right));
    std::memcpy(into + i * sizeof(T), static_cast<const void*>(&result), sizeof(T));
  }
}

template <typename T, typename Op>
void combine(Op& op, const std::byte* left, const std::byte* right, std::byte* into, std::size_t count) {
  if (left == into) {
    combine_into<T, Side::right>(op, into, right, count);
  } else if (right == into) {
    combine_into<T, Side::left>(op, into, left, count);
  } else {
    combine_apart<T>(op, left, right, into, count);
  }
}

/// The loop of a callable: two operands at a time, what lies between them in a block that stays in the cache. (Not in
/// `into`, which may be an input that is still to come.)
template <typename T, typename Op>
void fold(Op& op, const std::byte* const* inputs, std::size_t input_count, std::byte* into, std::size_t count) {
  if (input_count == 1 && inputs[0] != into && count > 0) std::memcpy(into, inputs[0], count * sizeof(T));
  if (input_count == 1) return;
  if (input_count == 2) return combine<T>(op, inputs[0], inputs[1], into, count);

  constexpr std::size_t kBlock = std::max<std::size_t>(1, 4096 / sizeof(T));
  std::byte folded[kBlock * sizeof(T)];
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t length = std::min(kBlock, count - begin);
    const std::size_t at = begin * sizeof(T);
    // Not the first two at once: g++ warns of `folded` where the callable never returns.
    std::memcpy(folded, inputs[0] + at, length * sizeof(T));
    for (std::size_t k = 1; k + 1 < input_count; ++k) combine<T>(op, folded, inputs[k] + at, folded, length);
    combine<T>(op, folded, inputs[input_count - 1] + at, into + at, length);
  }
}

/// One's own operator, which a call keeps: of the pool, unless it wants to lie where frames do not.
template <typename Op>
struct HeldOp {
  Op op;

  static void* operator new(std::size_t bytes) { return allocate_frame(bytes); }
  static void operator delete(void* memory, std::size_t bytes) noexcept { free_frame(memory, bytes); }
  static void* operator new(std::size_t bytes, std::align_val_t alignment) { return ::operator new(bytes, alignment); }
  static void operator delete(void* memory, std::align_val_t alignment) noexcept {
    ::operator delete(memory, alignment);
  }
};

}  // namespace detail

template <Element T, ReduceOp<T> Op>
Reduction Reduction::of(Op op) {
  Reduction reduction;
  reduction.element_bytes_ = sizeof(T);
  reduction.type_ = element_type_of<T>;
  reduction.commutative_ = rondo::commutative<Op>;
  if constexpr (detail::PredefinedOp<Op>) {
    reduction.kind_ = Op::kind;
    reduction.fold_ = predefined(element_type_of<T>, Op::kind);
  } else {
    reduction.kind_ = ReduceKind::custom;
    reduction.operator_hash_ = detail::hash_of_type<Op>();
    using Held = detail::HeldOp<Op>;
    reduction.state_ = {new Held{std::move(op)}, Destroy{[](void* state) { delete static_cast<Held*>(state); }}};
    reduction.fold_ = [](void* state, const std::byte* const* inputs, std::size_t input_count, std::byte* into,
                         std::size_t count) {
      detail::fold<T>(static_cast<Held*>(state)->op, inputs, input_count, into, count);
    };
  }
  return reduction;
}

}  // namespace rondo
