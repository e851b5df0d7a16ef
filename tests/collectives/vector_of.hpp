#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rondo::testing {

/// Elements `begin` to `begin + count` of a rank's vector.
inline std::vector<std::uint32_t> vector_of(std::uint32_t seed, int rank, std::size_t count, std::size_t begin = 0) {
  std::vector<std::uint32_t> data(count);
  for (std::size_t i = 0; i < count; ++i)
    data[i] = seed * 31 + static_cast<std::uint32_t>(rank) * 1000 + static_cast<std::uint32_t>(begin + i);
  return data;
}

}  // namespace rondo::testing
