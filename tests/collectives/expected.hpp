#pragma once

#include <complex>
#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include <rondo/op.hpp>

#include "tests/support/ranks.hpp"

/// What collectives get and give in the tests: element `i` of the vector of `rank`, and reductions done one rank after
/// the other.
namespace rondo::testing {

/// Small whole numbers, so that no type rounds and no order of summation matters.
template <typename T>
T element(int rank, std::size_t i) {
  const int number = static_cast<int>((i * 5 + static_cast<std::size_t>(rank) * 3 + 1) % 4);
  if constexpr (std::is_same_v<T, bool>) {
    return number % 2 == 0;
  } else if constexpr (std::is_same_v<T, std::byte>) {
    return static_cast<std::byte>(number * 51 + rank);
  } else {
    return static_cast<T>(static_cast<float>(number));
  }
}

/// std::vector<bool> is no range of bool.
template <typename T>
struct Cell {
  T value{};
  friend bool operator==(const Cell&, const Cell&) = default;
};

template <typename T>
class Elements {
 public:
  explicit Elements(std::size_t count) : cells_(count) {}
  std::span<T> span() { return {reinterpret_cast<T*>(cells_.data()), cells_.size()}; }
  std::span<const T> span() const { return {reinterpret_cast<const T*>(cells_.data()), cells_.size()}; }
  T& operator[](std::size_t i) { return cells_[i].value; }
  const T& operator[](std::size_t i) const { return cells_[i].value; }
  std::size_t size() const { return cells_.size(); }

 private:
  std::vector<Cell<T>> cells_;
};

/// The vector of `rank`, elements `begin` to `begin + count`.
template <typename T>
Elements<T> input_of(int rank, std::size_t count, std::size_t begin = 0) {
  Elements<T> elements(count);
  for (std::size_t i = 0; i < count; ++i) elements[i] = element<T>(rank, begin + i);
  return elements;
}

/// Element `i` of the reduction of all ranks' vectors.
template <typename T, typename Op>
T reduced(int size, std::size_t i, Op op) {
  T result = element<T>(0, i);
  for (int rank = 1; rank < size; ++rank) result = static_cast<T>(op(result, element<T>(rank, i)));
  if constexpr (std::is_same_v<Op, Avg>) {
    if constexpr (std::is_integral_v<T>) {
      result = static_cast<T>(result / static_cast<T>(size));
    } else if constexpr (SmallFloat<T>) {
      result = T(static_cast<float>(result) / static_cast<float>(size));
    } else {
      result /= static_cast<decltype(std::abs(result))>(size);
    }
  }
  return result;
}

/// Throws, with `what`, unless element `i` of `got` is `wanted(i)` for every i.
template <typename T, typename Wanted>
void require_elements(const Elements<T>& got, const Wanted& wanted, const std::string& what) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] == wanted(i)) continue;
    throw std::runtime_error(what + ": element " + std::to_string(i) + " of " + std::to_string(got.size()));
  }
}

}  // namespace rondo::testing
