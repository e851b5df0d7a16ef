#include <rondo/reduction.hpp>

#include "collectives/reduction_kernels.hpp"

namespace rondo {
namespace {

template <typename T>
void divide(std::byte* data, std::size_t count, int ranks) {
  T* const elements = reinterpret_cast<T*>(data);
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (std::is_unsigned_v<T>) {
      elements[i] = static_cast<T>(elements[i] / static_cast<unsigned>(ranks));
    } else if constexpr (std::is_integral_v<T>) {
      elements[i] = static_cast<T>(elements[i] / ranks);
    } else if constexpr (SmallFloat<T>) {
      elements[i] = T(static_cast<float>(elements[i]) / static_cast<float>(ranks));
    } else if constexpr (std::is_floating_point_v<T>) {
      elements[i] /= static_cast<T>(ranks);
    } else {
      elements[i] /= static_cast<typename T::value_type>(ranks);
    }
  }
}

}  // namespace

Reduction::Fold Reduction::predefined(ElementType type, ReduceKind kind) noexcept {
  static const detail::Kernels& kernels = *detail::kernel_variants().back().kernels;
  return kernels.fold[static_cast<std::size_t>(type)][static_cast<std::size_t>(kind)];
}

void Reduction::finish(std::byte* data, std::size_t count, int ranks) const {
  if (kind_ != ReduceKind::avg) return;
  switch (type_) {
    case ElementType::int8: return divide<std::int8_t>(data, count, ranks);
    case ElementType::int16: return divide<std::int16_t>(data, count, ranks);
    case ElementType::int32: return divide<std::int32_t>(data, count, ranks);
    case ElementType::int64: return divide<std::int64_t>(data, count, ranks);
    case ElementType::uint8: return divide<std::uint8_t>(data, count, ranks);
    case ElementType::uint16: return divide<std::uint16_t>(data, count, ranks);
    case ElementType::uint32: return divide<std::uint32_t>(data, count, ranks);
    case ElementType::uint64: return divide<std::uint64_t>(data, count, ranks);
    case ElementType::float16: return divide<float16>(data, count, ranks);
    case ElementType::bfloat16: return divide<bfloat16>(data, count, ranks);
    case ElementType::float32: return divide<float>(data, count, ranks);
    case ElementType::float64: return divide<double>(data, count, ranks);
    case ElementType::complex64: return divide<std::complex<float>>(data, count, ranks);
    case ElementType::complex128: return divide<std::complex<double>>(data, count, ranks);
    case ElementType::bytes:
    case ElementType::boolean:
    case ElementType::custom: break;
  }
}

}  // namespace rondo
