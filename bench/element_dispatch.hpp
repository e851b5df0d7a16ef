#pragma once

#include <complex>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <rondo/bfloat16.hpp>
#include <rondo/call.hpp>
#include <rondo/element_type.hpp>
#include <rondo/float16.hpp>
#include <rondo/op.hpp>

namespace rondo::bench {

/// Calls `with(std::type_identity<T>)` for the C++ type of `type`.
template <typename F>
decltype(auto) with_type(ElementType type, F&& with) {
  switch (type) {
    case ElementType::int8: return with(std::type_identity<std::int8_t>{});
    case ElementType::int16: return with(std::type_identity<std::int16_t>{});
    case ElementType::int32: return with(std::type_identity<std::int32_t>{});
    case ElementType::int64: return with(std::type_identity<std::int64_t>{});
    case ElementType::uint8: return with(std::type_identity<std::uint8_t>{});
    case ElementType::uint16: return with(std::type_identity<std::uint16_t>{});
    case ElementType::uint32: return with(std::type_identity<std::uint32_t>{});
    case ElementType::uint64: return with(std::type_identity<std::uint64_t>{});
    case ElementType::float16: return with(std::type_identity<float16>{});
    case ElementType::bfloat16: return with(std::type_identity<bfloat16>{});
    case ElementType::float32: return with(std::type_identity<float>{});
    case ElementType::float64: return with(std::type_identity<double>{});
    case ElementType::complex64: return with(std::type_identity<std::complex<float>>{});
    case ElementType::complex128: return with(std::type_identity<std::complex<double>>{});
    default: throw std::logic_error("rondo-bench has no buffers of this element type");
  }
}

/// Calls `with(op)` for the operator object of `kind`.
template <typename F>
decltype(auto) with_op(ReduceKind kind, F&& with) {
  switch (kind) {
    case ReduceKind::sum: return with(sum);
    case ReduceKind::prod: return with(prod);
    case ReduceKind::min: return with(min);
    case ReduceKind::max: return with(max);
    case ReduceKind::avg: return with(avg);
    case ReduceKind::band: return with(band);
    case ReduceKind::bor: return with(bor);
    case ReduceKind::bxor: return with(bxor);
    case ReduceKind::land: return with(land);
    case ReduceKind::lor: return with(lor);
    default: throw std::logic_error("rondo-bench has no such operator");
  }
}

/// Whether `with_type` knows the type.
bool is_benchmarked(ElementType type);
/// "int8, int16, ...": for error texts.
std::string benchmarked_types();
/// Whether rondo defines this operator for this type.
bool applies(ReduceKind kind, ElementType type);

}  // namespace rondo::bench
