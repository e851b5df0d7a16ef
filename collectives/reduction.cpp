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

void Reduction::finish(std::byte* data, std::size_t count, int ranks) const {
  if (kind_ == ReduceKind::avg) kernels().divide[static_cast<std::size_t>(type_)](data, count, ranks);
}

}  // namespace rondo
