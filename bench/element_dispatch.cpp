#include "bench/element_dispatch.hpp"

#include <algorithm>
#include <array>

namespace rondo::bench {
namespace {

using enum ElementType;
constexpr std::array kBenchmarked{int8,   int16,   int32,    int64,   uint8,   uint16,    uint32,
                                  uint64, float16, bfloat16, float32, float64, complex64, complex128};

}  // namespace

bool is_benchmarked(ElementType type) {
  return std::find(kBenchmarked.begin(), kBenchmarked.end(), type) != kBenchmarked.end();
}

std::string benchmarked_types() {
  std::string names;
  for (const ElementType type : kBenchmarked) {
    if (!names.empty()) names += ", ";
    names += to_string(type);
  }
  return names;
}

bool applies(ReduceKind kind, ElementType type) {
  return with_type(type, [&]<typename T>(std::type_identity<T>) {
    return with_op(kind, []<typename Op>(Op) { return ReduceOp<Op, T>; });
  });
}

}  // namespace rondo::bench
