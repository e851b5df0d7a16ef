#include "cuda/reduction.hpp"

#include <algorithm>
#include <complex>
#include <cstring>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include <rondo/call.hpp>
#include <rondo/element_type.hpp>
#include <rondo/op.hpp>

#include "collectives/reduction_kernels.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/lacks_kernels.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/elements.hpp"

using namespace rondo;
using namespace rondo::testing;
using cuda::kMaxInputs;

namespace {

constexpr std::byte kUntouched{0xa5};
constexpr std::size_t kGuard = 32;
constexpr std::size_t kSlotAlignment = 64;

constexpr std::size_t kCounts[] = {0, 1, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 130, 1000};
/// More than all threads of a stand-in's device take at once.
constexpr std::size_t kManyBytes = 150001;

/// Where the elements of a slot begin, beyond a multiple of 16.
enum class Placement { aligned, alike, differently };

class Bench : public DeviceUnderTest {
 public:
  cuda::Reductions reductions{context, test_image()};
  DeviceMemory memory{context, 1 << 20};
};

/// Buffers side by side in device memory, inputs before outputs, with guards around each.
template <typename T>
class Slots {
 public:
  Slots(std::size_t slots, std::size_t count, Placement placement)
      : count_(count),
        placement_(placement),
        stride_((count * sizeof(T) + 4 * kGuard + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment),
        image_(slots * stride_, kUntouched) {}

  std::size_t bytes() const { return image_.size(); }
  std::size_t offset(std::size_t slot) const {
    constexpr bool is_complex = NumberElement<T> && !OrderedElement<T>;
    constexpr std::size_t kStep = is_complex ? sizeof(T) / 2 : sizeof(T);
    const std::size_t steps = placement_ == Placement::aligned ? 0 : placement_ == Placement::alike ? 1 : slot % 2;
    return slot * stride_ + kGuard + steps * kStep;
  }
  void set(std::size_t slot, std::size_t index, T element) {
    std::memcpy(image_.data() + offset(slot) + index * sizeof(T), &element, sizeof(T));
  }
  T get(std::size_t slot, std::size_t index) const {
    T element;
    std::memcpy(static_cast<void*>(&element), image_.data() + offset(slot) + index * sizeof(T), sizeof(T));
    return element;
  }
  /// Whether all is as here, element by element, and byte by byte in between.
  bool matches(const std::vector<std::byte>& found) const {
    if (found == image_) return true;
    Slots other = *this;
    other.image_ = found;
    for (std::size_t slot = 0; slot < image_.size() / stride_; ++slot) {
      for (std::size_t i = 0; i < count_; ++i) {
        const std::size_t at = offset(slot) + i * sizeof(T);
        if (std::memcmp(&image_[at], &found[at], sizeof(T)) == 0) continue;
        // Of NaNs any will do.
        if (std::is_integral_v<T> || !same(get(slot, i), other.get(slot, i))) return false;
        std::memcpy(&other.image_[at], &image_[at], sizeof(T));
      }
    }
    return other.image_ == image_;
  }
  const std::vector<std::byte>& image() const { return image_; }

 private:
  std::size_t count_;
  Placement placement_;
  std::size_t stride_;
  std::vector<std::byte> image_;
};

template <typename T>
T divided(T sum, int ranks) {
  if constexpr (std::is_integral_v<T>) {
    using Widest = std::conditional_t<std::is_signed_v<T>, long long, unsigned long long>;
    return static_cast<T>(static_cast<Widest>(sum) / static_cast<Widest>(ranks));
  } else if constexpr (SmallFloat<T>) {
    return T(static_cast<float>(sum) / static_cast<float>(ranks));
  } else if constexpr (std::is_floating_point_v<T>) {
    return sum / static_cast<T>(ranks);
  } else {
    return T(divided(sum.real(), ranks), divided(sum.imag(), ranks));
  }
}

template <typename T, typename Op>
T expected(const std::vector<T>& operands, Op op, int ranks) {
  const T folded = left_fold(operands, op);
  if constexpr (Op::kind == ReduceKind::avg) return divided(folded, ranks);
  return folded;
}

/// What each element becomes of those of the inputs.
template <typename T, typename Op>
std::vector<T> all_expected(const Slots<T>& slots, std::size_t inputs, std::size_t count, Op op, int ranks) {
  std::vector<T> wanted, operands(inputs);
  wanted.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < inputs; ++k) operands[k] = slots.get(k, i);
    wanted.push_back(expected(operands, op, ranks));
  }
  return wanted;
}

template <typename T>
Slots<T> random_slots(std::size_t slots, std::size_t inputs, std::size_t count, Placement placement,
                      std::minstd_rand& random) {
  Slots<T> filled(slots, count, placement);
  for (std::size_t k = 0; k < inputs; ++k) {
    for (std::size_t i = 0; i < count; ++i) filled.set(k, i, random_element<T>(random));
  }
  return filled;
}

/// Puts `before` on the device, does `work` there, and says whether that left `after`.
template <typename T, typename Work>
bool leaves(const Bench& bench, const Slots<T>& before, const Slots<T>& after, const Work& work) {
  if (before.bytes() > bench.memory.bytes()) return false;
  const cuda::Address address = bench.memory.address();
  bench.write(address, before.image());
  work(reinterpret_cast<std::byte*>(address));
  return after.matches(bench.content(address, before.bytes()));
}

template <typename T, typename Op>
bool direct_holds(const Bench& bench, Op op, std::size_t inputs, std::size_t count, Placement placement, bool in_place,
                  std::minstd_rand& random) {
  const cuda::Reduction reduction = bench.reductions.find(to_string(element_type_of<T>), to_string(Op::kind));
  const std::size_t first_output = in_place ? 0 : inputs;
  const int ranks = static_cast<int>(inputs) + 200;
  const auto before = random_slots<T>(first_output + inputs, inputs, count, placement, random);
  auto after = before;
  const std::vector<T> wanted = all_expected(before, inputs, count, op, ranks);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < inputs; ++k) after.set(first_output + k, i, wanted[i]);
  }
  return leaves(bench, before, after, [&](std::byte* memory) {
    cuda::DirectArguments arguments{};
    for (std::size_t k = 0; k < inputs; ++k) {
      arguments.inputs[k] = memory + before.offset(k);
      arguments.outputs[k] = memory + before.offset(first_output + k);
    }
    arguments.input_count = arguments.output_count = static_cast<unsigned>(inputs);
    arguments.count = count;
    arguments.ranks = ranks;
    bench.reductions.direct(reduction, arguments, bench.stream.handle());
  });
}

/// `into`: 0 and 1 are the inputs' own places, 2 is another.
template <typename T, typename Op>
bool combine_holds(const Bench& bench, Op op, std::size_t count, Placement placement, std::size_t into,
                   std::minstd_rand& random) {
  const cuda::Reduction reduction = bench.reductions.find(to_string(element_type_of<T>), to_string(Op::kind));
  constexpr int kRanks = 3;
  const auto before = random_slots<T>(3, 2, count, placement, random);
  auto after = before;
  const std::vector<T> wanted = all_expected(before, 2, count, op, kRanks);
  for (std::size_t i = 0; i < count; ++i) after.set(into, i, wanted[i]);
  return leaves(bench, before, after, [&](std::byte* memory) {
    std::byte* const to = memory + before.offset(into);
    bench.reductions.combine(reduction, {memory + before.offset(0), memory + before.offset(1), to, count},
                             bench.stream.handle());
    if constexpr (Op::kind == ReduceKind::avg) {
      bench.reductions.divide(reduction, {to, count, kRanks}, bench.stream.handle());
    }
  });
}

constexpr Placement kPlacements[] = {Placement::aligned, Placement::alike, Placement::differently};

template <typename T, typename Op>
void check_kernels(const Bench& bench, Op op) {
  INFO(to_string(element_type_of<T>) << " " << to_string(Op::kind));
  std::minstd_rand random(1);
  for (const Placement placement : kPlacements) {
    for (const std::size_t count : kCounts) {
      INFO(count << " elements, placement " << static_cast<int>(placement));
      for (const std::size_t inputs : {std::size_t{1}, std::size_t{3}}) {
        CHECK(direct_holds<T>(bench, op, inputs, count, placement, inputs == 3, random));
      }
      CHECK(combine_holds<T>(bench, op, count, placement, count % 3, random));
    }
    CHECK(direct_holds<T>(bench, op, kMaxInputs, 1000, placement, false, random));
    CHECK(direct_holds<T>(bench, op, 2, kManyBytes / sizeof(T), placement, true, random));
    CHECK(direct_holds<T>(bench, op, kMaxInputs, 77, placement, true, random));
  }
}

template <typename T>
void check_type(const Bench& bench) {
  const auto check = [&](auto... ops) { (check_kernels<T>(bench, ops), ...); };
  if constexpr (NumberElement<T>) check(sum, prod, avg);
  if constexpr (OrderedElement<T>) check(rondo::min, rondo::max);
  if constexpr (BitwiseElement<T>) check(band, bor, bxor);
  if constexpr (LogicalElement<T>) check(land, lor);
}

}  // namespace

TEMPLATE_TEST_CASE("kernels fold from the left, in rank order, whatever the place and the length", "[cuda][reduction]",
                   std::byte, bool, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t,
                   std::uint32_t, std::uint64_t, float16, bfloat16, float, double, std::complex<float>,
                   std::complex<double>) {
  if (!is_stand_in() && lacks_kernels()) return;
  const Bench bench;
  check_type<TestType>(bench);
}

TEST_CASE("there are kernels for what the host's loops take, and for nothing else", "[cuda][reduction]") {
  if (!is_stand_in() && lacks_kernels()) return;
  const Bench bench;
  for (std::size_t t = 0; t < detail::kElementTypes; ++t) {
    for (std::size_t k = 0; k < detail::kReduceKinds; ++k) {
      const auto type = to_string(static_cast<ElementType>(t));
      const auto kind = to_string(static_cast<ReduceKind>(k));
      INFO(type << " " << kind);
      const cuda::Reduction reduction = bench.reductions.find(type, kind);
      const bool taken = detail::baseline_kernels.fold[t][k] != nullptr;
      CHECK(static_cast<bool>(reduction) == taken);
      CHECK((reduction.combine != nullptr) == taken);
      CHECK((reduction.divide != nullptr) == (taken && static_cast<ReduceKind>(k) == ReduceKind::avg));
    }
  }
  CHECK(!bench.reductions.find("custom", "sum"));
  CHECK(!bench.reductions.find("float", "custom"));
}

TEST_CASE("all moves are made, whatever their number, places and lengths, and nothing else is touched",
          "[cuda][reduction]") {
  if (!is_stand_in() && lacks_kernels()) return;
  const Bench bench;
  std::minstd_rand random(1);
  const std::size_t half = bench.memory.bytes() / 2;
  std::vector<std::byte> image(2 * half, kUntouched);
  for (std::size_t i = 0; i < half; ++i) image[i] = static_cast<std::byte>(random() % 251);
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{7},
                                  std::size_t{cuda::kMaxMoves}, std::size_t{cuda::kMaxMoves + 1}}) {
    for (const std::size_t step : {std::size_t{1}, std::size_t{4}, std::size_t{16}}) {
      INFO(count << " moves, at multiples of " << step);
      std::vector<cuda::Move> moves;
      std::vector<std::byte> after = image;
      std::size_t to = half + step;
      for (std::size_t m = 0; m < count; ++m) {
        // One is long, so that not all threads of a device move it at once.
        const std::size_t bytes = (m == 1 ? kManyBytes : random() % 2000) / step * step;
        const std::size_t from = random() % (half - bytes) / step * step;
        const cuda::Address base = bench.memory.address();
        moves.push_back({reinterpret_cast<void*>(base + from), reinterpret_cast<void*>(base + to), bytes});
        std::copy_n(image.begin() + static_cast<std::ptrdiff_t>(from), bytes,
                    after.begin() + static_cast<std::ptrdiff_t>(to));
        to += bytes + step * (1 + random() % 3);
      }
      REQUIRE(to < after.size());
      bench.write(bench.memory.address(), image);
      bench.reductions.move(moves, bench.stream.handle());
      CHECK(bench.content(bench.memory.address(), after.size()) == after);
    }
  }
}

TEST_CASE("what is no image of kernels is refused", "[cuda][reduction]") {
  const DeviceUnderTest device;
  const std::byte nothing[64] = {};
  CHECK_THROWS_AS(cuda::Reductions(device.context, nothing), cuda::CudaError);
}
