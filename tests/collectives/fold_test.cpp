#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <rondo/reduction.hpp>

#include "collectives/reduction_kernels.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/elements.hpp"

using namespace rondo;
using rondo::testing::left_fold;
using rondo::testing::random_element;
using rondo::testing::same;

namespace {

constexpr std::size_t kCounts[] = {0, 1, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 130, 1000};
constexpr std::size_t kMostInputs = 9;
constexpr std::size_t kGuard = 64;
constexpr std::byte kUntouched{0xa5};

using Fold = std::function<void(std::span<const std::byte* const> inputs, std::byte* into, std::size_t count)>;
struct NamedFold {
  std::string name;
  Fold fold;
};

/// Inputs at odd addresses, and the result of folding them element by element.
template <typename T>
class Example {
 public:
  template <typename Op>
  Example(std::size_t input_count, std::size_t count, Op op, std::minstd_rand& random) : count_(count) {
    std::vector<std::vector<T>> operands(count);
    for (std::size_t k = 0; k < input_count; ++k) {
      memory_.emplace_back(bytes() + kGuard + kMostInputs + 1, kUntouched);
      for (std::size_t i = 0; i < count; ++i) {
        const auto element = random_element<T>(random);
        operands[i].push_back(element);
        std::memcpy(memory_[k].data() + k + 1 + i * sizeof(T), &element, sizeof(T));
      }
    }
    for (const auto& element : operands) expected_.push_back({left_fold(element, op)});
  }

  /// Folds into input `place`, or into memory of its own where there is no such input; says whether all was right.
  bool holds(const Fold& fold, std::size_t place) const {
    auto memory = memory_;
    memory.emplace_back(bytes() + kGuard + kMostInputs + 1, kUntouched);
    std::vector<const std::byte*> inputs;
    for (std::size_t k = 0; k < memory_.size(); ++k) inputs.push_back(memory[k].data() + k + 1);
    std::byte* const into = memory[place].data() + place + 1;
    fold(inputs, into, count_);
    for (std::size_t i = 0; i < count_; ++i) {
      T element;
      std::memcpy(static_cast<void*>(&element), into + i * sizeof(T), sizeof(T));
      if (!same(element, expected_[i].value)) return false;
    }
    const auto is_untouched = [](std::byte byte) { return byte == kUntouched; };
    for (std::size_t k = 0; k < memory_.size(); ++k) {
      if (k != place && std::memcmp(memory[k].data(), memory_[k].data(), memory[k].size()) != 0) return false;
    }
    return into[-1] == kUntouched && std::all_of(into + bytes(), into + bytes() + kGuard - 8, is_untouched);
  }

 private:
  /// std::vector<bool> is no range of bool.
  struct Cell {
    T value;
  };
  std::size_t bytes() const { return count_ * sizeof(T); }

  std::size_t count_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<Cell> expected_;
};

/// All numbers of inputs, all lengths, apart and in place.
template <typename T, typename Op>
void check_folds(Op op, const std::vector<NamedFold>& folds) {
  std::minstd_rand random(1);
  for (std::size_t input_count = 1; input_count <= kMostInputs; ++input_count) {
    for (const std::size_t count : kCounts) {
      const Example<T> example(input_count, count, op, random);
      for (const auto& [name, fold] : folds) {
        bool ok = true;
        for (std::size_t place = 0; place <= input_count; ++place) ok = ok && example.holds(fold, place);
        INFO(name << ": " << input_count << " inputs of " << count);
        if (!ok) CHECK(ok);
      }
    }
  }
}

template <typename T, typename Op>
void check_operator(Op op) {
  const std::string what = std::string(to_string(element_type_of<T>)) + " " + std::string(to_string(Op::kind));
  std::vector<NamedFold> folds;
  for (const auto& variant : detail::kernel_variants()) {
    const auto kernel = variant.kernels->fold[static_cast<int>(element_type_of<T>)][static_cast<int>(Op::kind)];
    INFO(variant.instructions << ": " << what);
    REQUIRE((kernel != nullptr) == ReduceOp<Op, T>);
    if constexpr (ReduceOp<Op, T>) {
      folds.push_back({variant.instructions + (": " + what), [=](auto inputs, std::byte* into, std::size_t n) {
                         kernel(nullptr, inputs.data(), inputs.size(), into, n);
                       }});
    }
  }
  if constexpr (ReduceOp<Op, T>) {
    const auto reduction = Reduction::of<T>(op);
    folds.push_back({what, [&](auto inputs, std::byte* into, std::size_t n) { reduction.fold(inputs, into, n); }});
    check_folds<T>(op, folds);
  }
}

template <typename... Ops>
struct Operators {
  template <typename... Elements>
  static void check() {
    (check_on<Ops, Elements...>(), ...);
  }

 private:
  template <typename Op, typename... Elements>
  static void check_on() {
    (check_operator<Elements>(Op{}), ...);
  }
};
using EveryOperator = Operators<Sum, Prod, Min, Max, Avg, Band, Bor, Bxor, Land, Lor>;

/// avg's division, of random elements at odd addresses.
template <typename T>
void check_division() {
  constexpr std::size_t kCount = 1003;
  std::minstd_rand random(2);
  std::vector<std::byte> memory(kCount * sizeof(T) + 1);
  std::vector<T> dividends;
  for (std::size_t i = 0; i < kCount; ++i) {
    dividends.push_back(random_element<T>(random));
    std::memcpy(memory.data() + 1 + i * sizeof(T), &dividends[i], sizeof(T));
  }
  for (const auto& variant : detail::kernel_variants()) {
    for (const int ranks : {1, 2, 3, 7, 10, 127, 256, 65537, 1 << 30}) {
      auto divided = memory;
      variant.kernels->divide[static_cast<int>(element_type_of<T>)](divided.data() + 1, kCount, ranks);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < kCount; ++i) {
        T expected;
        if constexpr (std::is_integral_v<T>) {
          using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
          expected = static_cast<T>(static_cast<Wide>(dividends[i]) / static_cast<Wide>(ranks));
        } else if constexpr (SmallFloat<T>) {
          expected = T(static_cast<float>(dividends[i]) / static_cast<float>(ranks));
        } else {
          expected = dividends[i] / static_cast<decltype(std::abs(dividends[i]))>(ranks);
        }
        T element;
        std::memcpy(static_cast<void*>(&element), divided.data() + 1 + i * sizeof(T), sizeof(T));
        wrong += !same(element, expected);
      }
      INFO(variant.instructions << ": " << to_string(element_type_of<T>) << " / " << ranks);
      CHECK(wrong == 0);
    }
  }
}

template <typename T>
std::byte* bytes(std::vector<T>& elements) {
  return reinterpret_cast<std::byte*>(elements.data());
}

/// The sum of one large number and many small ones, each below half of the last bit of the large one.
template <SmallFloat T>
void check_sum_of_small(float large, float small) {
  const std::size_t count = 37;
  const std::size_t input_count = 20;
  std::vector<std::vector<T>> inputs(input_count, std::vector<T>(count, T(small)));
  inputs[0].assign(count, T(large));
  std::vector<const std::byte*> pointers;
  for (auto& input : inputs) pointers.push_back(bytes(input));
  const T exact(large + static_cast<float>(input_count - 1) * static_cast<float>(T(small)));
  REQUIRE(T(large) + T(small) == T(large));
  REQUIRE(exact != T(large));

  std::vector<T> into(count);
  Reduction::of<T>(sum).fold(pointers, bytes(into), count);
  CHECK(std::all_of(into.begin(), into.end(), [&](T element) { return element == exact; }));
}

/// Digits that a left fold appends: it shows the order, and where an operand was skipped.
std::uint64_t append(std::uint64_t a, std::uint64_t b) { return a * 10 + b; }

}  // namespace

TEST_CASE("folding integers is the left fold on every instruction set", "[collectives][reduction]") {
  EveryOperator::check<std::int8_t, std::int16_t, std::int32_t, std::int64_t>();
  EveryOperator::check<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, bool, std::byte>();
}

TEST_CASE("folding floating-point numbers is the left fold on every instruction set", "[collectives][reduction]") {
  EveryOperator::check<float, double, float16, bfloat16, std::complex<float>, std::complex<double>>();
}

TEST_CASE("avg divides alike on every instruction set", "[collectives][reduction]") {
  const auto check = [](auto... types) { (check_division<decltype(types)>(), ...); };
  check(std::int8_t{}, std::int16_t{}, std::int32_t{}, std::int64_t{}, std::uint8_t{}, std::uint16_t{}, std::uint32_t{},
        std::uint64_t{}, float{}, double{}, float16{}, bfloat16{}, std::complex<float>{}, std::complex<double>{});
}

TEST_CASE("16-bit floats are folded in float and rounded once", "[collectives][reduction]") {
  check_sum_of_small<float16>(2048, 0.9F);
  check_sum_of_small<bfloat16>(256, 0.9F);
}

TEST_CASE("every 16-bit float is converted alike on every instruction set", "[collectives][reduction]") {
  const auto check = [](auto type, auto op) {
    using T = decltype(type);
    std::vector<T> values(0x10000);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = T::from_bits(static_cast<std::uint16_t>(i));
    for (const float other : {0.0F, 1.0F, -3.0F, 0x1p-20F, 0x1.ffcp15F}) {
      std::vector<T> others(values.size(), T(other));
      const std::byte* const inputs[] = {bytes(values), bytes(others)};
      for (const auto& variant : detail::kernel_variants()) {
        std::vector<T> into(values.size());
        variant.kernels->fold[static_cast<int>(element_type_of<T>)][static_cast<int>(op.kind)](
            nullptr, inputs, 2, bytes(into), into.size());
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < into.size(); ++i) {
          wrong += into[i].bits() != T(op(static_cast<float>(values[i]), static_cast<float>(others[i]))).bits();
        }
        INFO(variant.instructions << " " << to_string(element_type_of<T>) << " with " << other);
        CHECK(wrong == 0);
      }
    }
  };
  check(float16{}, sum);
  check(float16{}, prod);
  check(bfloat16{}, sum);
  check(bfloat16{}, prod);
}

TEST_CASE("a callable is folded from the left, in blocks, in place too", "[collectives][reduction]") {
  const auto reduction = Reduction::of<std::uint64_t>(append);
  check_folds<std::uint64_t>(
      append, {{"append", [&](auto inputs, std::byte* into, std::size_t n) { reduction.fold(inputs, into, n); }}});
}

TEST_CASE("folding calls a callable with state once for each pair", "[collectives][reduction]") {
  const auto calls = std::make_shared<int>(0);
  const auto reduction = Reduction::of<int>([calls](int a, int b) {
    ++*calls;
    return a + b;
  });
  std::vector<int> a(3000, 1);
  std::vector<int> b(3000, 2);
  std::vector<int> c(3000, 3);
  reduction.fold(std::vector<const std::byte*>{bytes(a), bytes(b), bytes(c)}, bytes(b), b.size());
  CHECK(b == std::vector<int>(3000, 6));
  CHECK(*calls == 6000);
}

TEST_CASE("what a callable throws comes out of folding", "[collectives][reduction]") {
  const auto reduction = Reduction::of<int>([](int a, int b) -> int {
    if (b == 3) throw std::domain_error("no three");
    return a + b;
  });
  std::vector<int> a(10, 1);
  std::vector<int> b(10, 3);
  CHECK_THROWS_AS(reduction.fold(std::vector<const std::byte*>{bytes(a), bytes(a), bytes(b)}, bytes(a), a.size()),
                  std::domain_error);
}

TEST_CASE("folding takes elements larger than a block", "[collectives][reduction]") {
  struct Large {
    int values[2000];
  };
  const auto reduction = Reduction::of<Large>([](const Large& a, const Large& b) {
    Large result = a;
    for (int i = 0; i < 2000; ++i) result.values[i] += b.values[i];
    return result;
  });
  std::vector<Large> a(2);
  for (auto& large : a) std::fill_n(large.values, 2000, 7);
  std::vector<Large> b(2);
  reduction.fold(std::vector<const std::byte*>{bytes(a), bytes(a), bytes(a)}, bytes(b), 2);
  CHECK(b[1].values[1999] == 21);
}
