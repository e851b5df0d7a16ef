#include <algorithm>
#include <atomic>
#include <chrono>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <rondo/rondo.hpp>

#include "tests/collectives/expected.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

using namespace rondo;
using namespace rondo::testing;

namespace {

// Of one host, by messages and in shared memory.
constexpr Algorithm kAllReduce[] = {Algorithm::recursive_doubling,
                                    Algorithm::tree,
                                    Algorithm::linear,
                                    Algorithm::double_star,
                                    Algorithm::chain,
                                    Algorithm::ring,
                                    Algorithm::direct,
                                    Algorithm::sliced};

template <typename T, typename Op>
void check(Communicator& world, Op op, const Options& options) {
  if constexpr (ReduceOp<Op, T>) {
    auto inout = input_of<T>(world.rank(), 33);
    all_reduce(world, inout.span(), op, options);
    const auto wanted = [&](std::size_t i) { return reduced<T>(world.size(), i, op); };
    require_elements(inout, wanted,
                     std::string(to_string(Op::kind)) + " of " + std::string(to_string(element_type_of<T>)));
  }
}

template <typename... Elements>
void check_all(Communicator& world, const Options& options) {
  const auto every_type = [&](auto op) { (check<Elements>(world, op, options), ...); };
  every_type(sum);
  every_type(prod);
  every_type(min);
  every_type(max);
  every_type(avg);
  every_type(band);
  every_type(bor);
  every_type(bxor);
  every_type(land);
  every_type(lor);
}

/// 2x2 matrices modulo a prime: a product that does not commute, and is exact.
struct Matrix {
  std::uint32_t a, b, c, d;
  friend bool operator==(const Matrix&, const Matrix&) = default;
};
constexpr std::uint32_t kPrime = 32749;

Matrix multiply(const Matrix& l, const Matrix& r) {
  return {(l.a * r.a + l.b * r.c) % kPrime, (l.a * r.b + l.b * r.d) % kPrime, (l.c * r.a + l.d * r.c) % kPrime,
          (l.c * r.b + l.d * r.d) % kPrime};
}

Matrix matrix_of(int rank, std::size_t i) {
  const auto r = static_cast<std::uint32_t>(rank);
  const auto n = static_cast<std::uint32_t>(i);
  return {r + 2, n + 1, n % 7 + 3, r * n % 11 + 1};
}

Matrix product(int size, std::size_t i) {
  Matrix result = matrix_of(0, i);
  for (int rank = 1; rank < size; ++rank) result = multiply(result, matrix_of(rank, i));
  return result;
}

std::vector<Matrix> matrices(int rank, std::size_t count) {
  std::vector<Matrix> result;
  for (std::size_t i = 0; i < count; ++i) result.push_back(matrix_of(rank, i));
  return result;
}

/// The largest value and who has it, as MPI's maxloc.
struct Located {
  double value;
  int rank;
};

}  // namespace

TEST_CASE("every operator reduces every element type that it takes", "[collectives][operators]") {
  for (const int size : {2, 3, 4}) {
    run_ranks(size, [](Communicator& world) {
      for (const Options& options : {Options{}, Options{Algorithm::ring, 32}, Options{Algorithm::tree, 32}}) {
        check_all<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t,
                  std::uint64_t, float16, bfloat16, float, double, std::complex<float>, std::complex<double>, bool,
                  std::byte>(world, options);
      }
    });
  }
}

TEST_CASE("an operator that does not commute is applied in rank order", "[collectives][operators]") {
  for (const int size : {2, 3, 4, 5, 7, 8}) {
    run_ranks(size, [size](Communicator& world) {
      const std::size_t count = 40;
      for (const Algorithm algorithm : kAllReduce) {
        if (algorithm == Algorithm::ring) continue;
        auto inout = matrices(world.rank(), count);
        all_reduce(world, std::span(inout), multiply, {algorithm, 64});
        for (std::size_t i = 0; i < count; ++i) {
          require(inout[i] == product(size, i), "all_reduce by " + std::string(to_string(algorithm)));
        }
      }
      for (int root = 0; root < size; ++root) {
        const auto in = matrices(world.rank(), count);
        std::vector<Matrix> out(count);
        reduce(world, std::span(in), std::span(out), multiply, root);
        for (std::size_t i = 0; i < count && world.rank() == root; ++i) require(out[i] == product(size, i), "reduce");
      }
      const std::size_t share = 5;
      const auto in = matrices(world.rank(), share * static_cast<std::size_t>(size));
      std::vector<Matrix> out(share);
      reduce_scatter(world, std::span(in), std::span(out), multiply);
      for (std::size_t i = 0; i < share; ++i) {
        require(out[i] == product(size, static_cast<std::size_t>(world.rank()) * share + i), "reduce_scatter");
      }
    });
  }
}

TEST_CASE("a ring takes an operator that is declared to commute", "[collectives][operators]") {
  run_ranks(3, [](Communicator& world) {
    std::vector<Located> best(10, {static_cast<double>(world.rank() % 2), world.rank()});
    const auto maxloc = [](const Located& a, const Located& b) {
      if (a.value != b.value) return a.value > b.value ? a : b;
      return a.rank < b.rank ? a : b;
    };
    all_reduce(world, std::span(best), commuting(maxloc), {.algorithm = Algorithm::ring});
    for (const Located& located : best) require(located.rank == 1 && located.value == 1.0, "maxloc");
  });
}

TEST_CASE("an algorithm that needs a commuting operator is refused another", "[collectives][operators]") {
  const auto outcomes = try_ranks(2, [](Communicator& world) {
    std::vector<int> data(4);
    const auto left = [](int a, int) { return a; };
    all_reduce(world, std::span(data), left, {.algorithm = Algorithm::ring});
  });
  for (const auto& outcome : outcomes) {
    CHECK(outcome.code == Errc::invalid_argument);
    CHECK_THAT(outcome.error, Catch::Matchers::ContainsSubstring("ring"));
  }
}

TEST_CASE("a callable with state lives as long as its operation", "[collectives][operators]") {
  std::atomic<int> calls{0};
  run_ranks(2, [&calls](Communicator& world) {
    std::vector<int> data(100, world.rank() + 1);
    Work work = [&] {
      const auto counter = std::make_shared<std::atomic<int>*>(&calls);
      return iall_reduce(world, std::span(data), [counter](int a, int b) {
        ++**counter;
        return a + b;
      });
    }();
    work.wait();
    require(data == std::vector<int>(100, 3), "wrong sum");
  });
  CHECK(calls > 0);
}

TEST_CASE("what a callable throws comes out of the collective", "[collectives][operators]") {
  const auto outcomes = try_ranks(2, [](Communicator& world) {
    std::vector<int> data(1, world.rank());
    all_reduce(world, std::span(data), [](int a, int b) -> int {
      if (a + b > 0) throw std::domain_error("no sum today");
      return a;
    });
  });
  for (const auto& outcome : outcomes) CHECK(outcome.failed());
}

TEST_CASE("a callable that throws on one rank ends the collective on all", "[collectives][operators]") {
  const Algorithm algorithm = GENERATE(Algorithm::tree, Algorithm::direct);
  const auto outcomes = try_ranks(3, [algorithm](Communicator& world) {
    barrier(world);
    std::vector<int> data(3, 1);
    std::string text;
    try {
      all_reduce(world, std::span(data),
                 [&](int a, int b) -> int {
                   if (world.rank() == 0) throw std::domain_error("no sum today");
                   return a + b;
                 },
                 {.algorithm = algorithm});
      // Whose part was over before hears of it in the next call.
      barrier(world);
    } catch (const std::exception& error) {
      text = error.what();
    }
    require(text.find("no sum today") != std::string::npos, "got: " + text);
  });
  for (const auto& outcome : outcomes) CHECK(outcome.error == "");
}

TEST_CASE("nobody takes the call after one that threw for a part of that, and every later one throws, too",
          "[collectives][operators]") {
  const bool on_both = GENERATE(false, true);
  constexpr std::size_t kCount = 40'000;  // more than goes in one step
  const auto outcomes = try_ranks(2, [on_both](Communicator& world) {
    std::vector<double> input(2 * kCount);
    std::vector<double> sums(kCount);
    bool armed = false;
    const auto add = [&armed](double a, double b) {
      if (std::exchange(armed, false)) throw std::domain_error("no sum today");
      return a + b;
    };
    reduce_scatter(world, std::span<const double>(input), std::span(sums), add);
    barrier(world);
    std::iota(input.begin(), input.end(), 0.0);
    armed = on_both || world.rank() == 0;
    const auto text_of = [](const auto& call) -> std::string {
      try {
        call();
        return "";
      } catch (const std::exception& error) {
        return error.what();
      }
    };
    const auto again = [&] { reduce_scatter(world, std::span<const double>(input), std::span(sums), add); };
    if (text_of(again).empty()) {
      require(world.rank() == 1 && !on_both, "rank 0's callable threw");
      for (std::size_t i = 0; i < kCount; ++i) {
        require(sums[i] == 2 * static_cast<double>(kCount + i), "a sum of what was not given");
      }
    }
    std::vector<int> few(16);
    for (int i = 0; i < 1000; ++i) {
      const std::string text = text_of([&] {
        if (i % 2 == 0) return again();
        all_reduce(world, std::span(few), rondo::sum);
      });
      require(text.find("threw: no sum today") != std::string::npos, "got: " + text);
    }
  });
  for (const auto& outcome : outcomes) CHECK(outcome.error == "");
}

TEST_CASE("callables that throw on two ranks in different chunks end the collective on both",
          "[collectives][operators]") {
  Config config;
  config.timeout = std::chrono::seconds(20);
  config.transport = Transport::tcp;
  const Algorithm algorithm = GENERATE(Algorithm::ring, Algorithm::tree);
  const auto begin = std::chrono::steady_clock::now();
  const auto outcomes = try_ranks(
      2,
      [algorithm](Communicator& world) {
        // In chunks of 2: one of the block that one rank of a ring adds up, in one lane, one of the other's in the
        // other.
        std::vector<int> data{-1, 1, 1, 1, 1, 1, -1, 1};
        all_reduce(world, std::span(data), commuting([&](int a, int b) -> int {
                     if (a < 0) throw std::domain_error("no sum today");
                     return a + b;
                   }),
                   {.algorithm = algorithm, .chunk_bytes = 2 * sizeof(int)});
      },
      config);
  for (const Outcome& outcome : outcomes) CHECK_THAT(outcome.error, Catch::Matchers::ContainsSubstring("no sum today"));
  CHECK(std::chrono::steady_clock::now() - begin < *config.timeout);
}

namespace {

struct Saturating : Sum {
  template <typename T>
  T operator()(T a, T b) const {
    return std::min<T>(static_cast<T>(a + b), 5);
  }
};

struct Celsius {
  explicit Celsius(int of) : degrees(of) {}
  int degrees;
};

}  // namespace

TEST_CASE("an operator derived from a predefined one is one's own", "[collectives][operators]") {
  run_ranks(3, [](Communicator& world) {
    int value = 3;
    all_reduce(world, std::span(&value, 1), Saturating{});
    require(value == 5, "got " + std::to_string(value));
  });
}

TEST_CASE("elements need no constructor without arguments", "[collectives][operators]") {
  run_ranks(3, [](Communicator& world) {
    Celsius value(world.rank());
    all_reduce(world, std::span(&value, 1), [](Celsius a, Celsius b) { return Celsius(a.degrees + b.degrees); });
    require(value.degrees == 3, "got " + std::to_string(value.degrees));
  });
}

TEST_CASE("all ranks get the same bits of a floating-point sum", "[collectives][operators]") {
  for (const int size : {3, 5, 8}) {
    run_ranks(size, [](Communicator& world) {
      for (const Algorithm algorithm : kAllReduce) {
        std::vector<float> data(257);
        for (std::size_t i = 0; i < data.size(); ++i) {
          data[i] = 1.0F / static_cast<float>(i + 3 * static_cast<std::size_t>(world.rank()) + 1);
        }
        all_reduce(world, std::span(data), sum, {algorithm, 128});
        auto first = data;
        broadcast(world, std::span(first), 0);
        require(first == data, "ranks differ after " + std::string(to_string(algorithm)));
      }
    });
  }
}
