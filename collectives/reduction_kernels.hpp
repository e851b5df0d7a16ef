#pragma once

#include <cstddef>
#include <span>

#include <rondo/call.hpp>
#include <rondo/element_type.hpp>

namespace rondo::detail {

/// The loop of an operator: `into[i] = inputs[0][i] (op) inputs[1][i] (op) ...` with the rules of `Reduction::fold`.
/// `state` is the callable; the predefined operators have none.
using FoldKernel = void (*)(void* state, const std::byte* const* inputs, std::size_t input_count, std::byte* into,
                            std::size_t count);

/// The last pass of `avg`: `data[i] /= ranks`, integers truncated towards zero. No alignment is asked for.
using Divide = void (*)(std::byte* data, std::size_t count, int ranks);

inline constexpr std::size_t kElementTypes = static_cast<std::size_t>(ElementType::custom);
inline constexpr std::size_t kReduceKinds = static_cast<std::size_t>(ReduceKind::custom);

/// The loops of the predefined operators by ElementType and ReduceKind; null where an operator does not take a type.
struct Kernels {
  FoldKernel fold[kElementTypes][kReduceKinds];
  Divide divide[kElementTypes];
};

/// reduction_kernels.cpp, compiled for the instructions that the name says. All give the same bits, except which NaN it
/// is where several meet.
extern const Kernels baseline_kernels;
extern const Kernels avx2_kernels;
extern const Kernels avx512_kernels;

struct KernelVariant {
  const char* instructions;
  const Kernels* kernels;
};

/// What this processor runs, the fastest last.
std::span<const KernelVariant> kernel_variants() noexcept;

}  // namespace rondo::detail
