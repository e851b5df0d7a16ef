#include <algorithm>
#include <cstring>

#include <rondo/reduction.hpp>

#include "collectives/reduction_kernels.hpp"

namespace rondo {
namespace {

const detail::Kernels& kernels() {
  static const detail::Kernels& fastest = *detail::kernel_variants().back().kernels;
  return fastest;
}

}  // namespace

Reduction::Fold Reduction::predefined(ElementType type, ReduceKind kind) noexcept {
  return kernels().fold[static_cast<std::size_t>(type)][static_cast<std::size_t>(kind)];
}

// What lies between two steps stays in a block of its own: `into` may be an input that is still to come.
void Reduction::fold_in_steps(std::span<const std::byte* const> inputs, std::byte* into, std::size_t count) const {
  if (inputs.size() <= 2) return fold_(state_.get(), inputs.data(), inputs.size(), into, count);
  constexpr std::size_t kBlockBytes = 4096;
  std::byte folded[kBlockBytes];
  const std::size_t block = kBlockBytes / element_bytes_;
  for (std::size_t begin = 0; begin < count; begin += block) {
    const std::size_t length = std::min(block, count - begin);
    const std::size_t at = begin * element_bytes_;
    const std::byte* left = inputs.front() + at;
    for (const std::byte* const input : inputs.subspan(1)) {
      combine(left, input + at, folded, length, Side::right);
      left = folded;
    }
    std::memcpy(into + at, folded, length * element_bytes_);
  }
}

void Reduction::finish(std::byte* data, std::size_t count, int ranks) const {
  if (kind_ == ReduceKind::avg) kernels().divide[static_cast<std::size_t>(type_)](data, count, ranks);
}

}  // namespace rondo
