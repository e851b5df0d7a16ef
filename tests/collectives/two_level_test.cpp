// Collectives of ranks on several hosts: in shared memory on each, by messages between them. What they give.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <rondo/rondo.hpp>

#include "tests/collectives/expected.hpp"
#include "tests/collectives/pretended_hosts.hpp"
#include "tests/support/rounds.hpp"

using namespace rondo;
using namespace rondo::testing;

namespace {

const std::vector<Table> kInOrder = {
    {0, 0, 1, 1}, {0, 0, 0, 3}, {0, 1, 1, 3, 3, 3}, {0, 0, 0, 0, -1, -1, 6, 6}, {0, 0, 2, 2, 4, 4, 4}};
const std::vector<Table> kMixed = {{0, 1, 0, 1}, {0, 1, 1, 0, 0, 1, 6}, {0, -1, 0}, {0, 1, 2, 0, 1, 2, 2}};

std::vector<Table> every_table() {
  std::vector<Table> all = kInOrder;
  all.insert(all.end(), kMixed.begin(), kMixed.end());
  return all;
}

/// Short and long, odd, and less than there are hosts; with the parts' own chunks and with tiny ones.
struct Length {
  std::size_t count;
  Options options;
};
const std::vector<Length> kLengths = {{0, kTwoLevel},
                                      {1, kTwoLevel},
                                      {2, kTwoLevel},
                                      {1001, kTwoLevel},
                                      {1001, {Algorithm::two_level, 256}},
                                      {80'003, kTwoLevel},
                                      {80'003, {Algorithm::two_level, 4096}}};

std::string name(const char* what, const Length& length, int root = -1) {
  std::string text = what;
  text += " x " + std::to_string(length.count) + ", chunk " + std::to_string(length.options.chunk_bytes);
  return root < 0 ? text : text + ", root " + std::to_string(root);
}

/// 2x2 matrices modulo a prime: a product that does not commute, and is exact.
struct Matrix {
  std::uint32_t a, b, c, d;
  friend bool operator==(const Matrix&, const Matrix&) = default;
};

Matrix multiply(const Matrix& l, const Matrix& r) {
  constexpr std::uint32_t kPrime = 32749;
  return {(l.a * r.a + l.b * r.c) % kPrime, (l.a * r.b + l.b * r.d) % kPrime, (l.c * r.a + l.d * r.c) % kPrime,
          (l.c * r.b + l.d * r.d) % kPrime};
}

Matrix matrix_of(int rank, std::size_t i) {
  const auto r = static_cast<std::uint32_t>(rank);
  const auto n = static_cast<std::uint32_t>(i % 1000);
  return {r + 2, n + 1, n % 7 + 3, r * n % 11 + 1};
}

std::vector<Matrix> matrices(int rank, std::size_t count) {
  std::vector<Matrix> result;
  for (std::size_t i = 0; i < count; ++i) result.push_back(matrix_of(rank, i));
  return result;
}

Matrix product(int size, std::size_t i) {
  Matrix result = matrix_of(0, i);
  for (int rank = 1; rank < size; ++rank) result = multiply(result, matrix_of(rank, i));
  return result;
}

template <typename T, typename Op>
void check_all_reduce(Communicator& comm, Op op, std::size_t count) {
  if constexpr (ReduceOp<Op, T>) {
    const auto wanted = [&](std::size_t i) { return reduced<T>(comm.size(), i, op); };
    const auto what = std::string(to_string(Op::kind)) + " of " + std::string(to_string(element_type_of<T>));
    auto inout = input_of<T>(comm.rank(), count);
    all_reduce(comm, inout.span(), op, kTwoLevel);
    require_elements(inout, wanted, what);
  }
}

template <typename... Elements>
void check_all_types(Communicator& comm, std::size_t count) {
  const auto every_type = [&](auto op) { (check_all_reduce<Elements>(comm, op, count), ...); };
  every_type(sum);
  every_type(prod);
  every_type(max);
  every_type(avg);
  every_type(bxor);
  every_type(land);
}

/// A different length for every rank, some of them 0.
std::vector<std::size_t> uneven(int size, std::size_t around) {
  std::vector<std::size_t> counts(at(size));
  for (std::size_t r = 0; r < counts.size(); ++r) counts[r] = r % 3 == 1 ? 0 : around + r;
  return counts;
}

std::size_t begin_of(const std::vector<std::size_t>& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0});
}

}  // namespace

TEST_CASE("all_reduce in two levels gives every rank the sum", "[collectives][two_level]") {
  for (const Table& hosts : every_table()) {
    run_on_hosts(hosts, [](Communicator& comm) {
      for (const Length& length : kLengths) {
        const auto wanted = [&](std::size_t i) { return reduced<int>(comm.size(), i, sum); };
        const auto in = input_of<int>(comm.rank(), length.count);
        Elements<int> out(length.count);
        all_reduce(comm, in.span(), out.span(), sum, length.options);
        require_elements(out, wanted, name("all_reduce", length));
        require_elements(
            in, [&](std::size_t i) { return element<int>(comm.rank(), i); }, "the input changed");

        auto inout = input_of<int>(comm.rank(), length.count);
        all_reduce(comm, inout.span(), sum, length.options);
        require_elements(inout, wanted, name("all_reduce in place", length));
      }
    });
  }
}

TEST_CASE("every type and operator is reduced in two levels as it is in one", "[collectives][two_level]") {
  for (const Table& hosts : {Table{0, 0, 1, 1}, Table{0, 1, 1, 0, 0}}) {
    run_on_hosts(hosts, [](Communicator& comm) {
      check_all_types<std::int8_t, std::int32_t, std::uint64_t, float16, bfloat16, float, double, std::complex<float>,
                      bool, std::byte>(comm, 33);
    });
  }
  // Long enough for slices.
  run_on_hosts({0, 1, 1, 0, 0}, [](Communicator& comm) { check_all_types<float16, float>(comm, 150'007); });
}

TEST_CASE("reduce and broadcast in two levels, from and to every root", "[collectives][two_level]") {
  for (const Table& hosts : every_table()) {
    run_on_hosts(hosts, [](Communicator& comm) {
      for (int root = 0; root < comm.size(); ++root) {
        for (const Length& length : kLengths) {
          if (length.count > 10'000 && root % 3 != 1) continue;
          const bool mine = comm.rank() == root;
          const auto mean = [&](std::size_t i) { return reduced<double>(comm.size(), i, avg); };
          const auto unchanged = [&](std::size_t i) { return element<double>(comm.rank(), i); };
          const auto in = input_of<double>(comm.rank(), length.count);
          Elements<double> out(mine ? length.count : 0);
          reduce(comm, in.span(), out.span(), avg, root, length.options);
          require_elements(out, mean, name("reduce", length, root));
          require_elements(in, unchanged, "the input changed");
          auto inout = input_of<double>(comm.rank(), length.count);
          reduce(comm, inout.span(), avg, root, length.options);
          if (mine) require_elements(inout, mean, name("reduce in place", length, root));
          if (!mine) require_elements(inout, unchanged, name("reduce, not the root", length, root));

          auto data = input_of<int>(comm.rank(), length.count);
          broadcast(comm, data.span(), root, length.options);
          require_elements(
              data, [&](std::size_t i) { return element<int>(root, i); }, name("broadcast", length, root));
        }
      }
    });
  }
}

TEST_CASE("an operator that does not commute is applied in rank order on several hosts", "[collectives][two_level]") {
  for (const Table& hosts : kInOrder) {
    run_on_hosts(hosts, [](Communicator& comm) {
      for (const std::size_t count : {3, 20'001}) {
        auto data = matrices(comm.rank(), count);
        all_reduce(comm, std::span(data), multiply, kTwoLevel);
        for (std::size_t i = 0; i < count; ++i) require(data[i] == product(comm.size(), i), "all_reduce");
        data = matrices(comm.rank(), count);
        reduce(comm, std::span(data), multiply, comm.size() - 1, kTwoLevel);
        for (std::size_t i = 0; i < count && comm.rank() == comm.size() - 1; ++i) {
          require(data[i] == product(comm.size(), i), "reduce");
        }
      }
    });
  }
}

TEST_CASE("gather and scatter in two levels, from and to every root", "[collectives][two_level]") {
  for (const Table& hosts : kInOrder) {
    run_on_hosts(hosts, [](Communicator& comm) {
      const int size = comm.size();
      const int rank = comm.rank();
      for (int root = 0; root < size; ++root) {
        const bool mine = rank == root;
        for (const std::size_t count : {0, 9, 5001}) {
          const auto all = input_of<int>(root, mine ? count * at(size) : 0);
          const auto dealt = [&](std::size_t i) { return element<int>(root, at(rank) * count + i); };
          Elements<int> block(count);
          scatter(comm, all.span(), block.span(), root, kTwoLevel);
          require_elements(block, dealt, "scatter");
          auto inout = input_of<int>(root, mine ? count * at(size) : count);
          scatter(comm, std::span<const int>(inout.span()),
                  mine ? inout.span().subspan(at(rank) * count, count) : inout.span(), root, kTwoLevel);
          for (std::size_t i = 0; i < inout.size(); ++i) {
            require(inout[i] == (mine ? element<int>(root, i) : dealt(i)), "scatter in place at the root");
          }

          const auto own = input_of<int>(rank, count);
          const auto collected = [&](std::size_t i) { return element<int>(static_cast<int>(i / count), i % count); };
          Elements<int> out(mine ? count * at(size) : 0);
          gather(comm, own.span(), out.span(), root, kTwoLevel);
          require_elements(out, collected, "gather");
          Elements<int> placed(mine ? count * at(size) : count);
          const auto here = mine ? placed.span().subspan(at(rank) * count, count) : placed.span();
          for (std::size_t i = 0; i < count; ++i) here[i] = own[i];
          gather(comm, here, mine ? placed.span() : std::span<int>{}, root, kTwoLevel);
          if (mine) require_elements(placed, collected, "gather in place at the root");
        }
        const auto counts = uneven(size, 40);
        const auto own = input_of<int>(rank, counts[at(rank)]);
        Elements<int> out(mine ? begin_of(counts, size) : 0);
        gather(comm, own.span(), out.span(), counts, root, kTwoLevel);
        for (int from = 0; mine && from < size; ++from) {
          for (std::size_t i = 0; i < counts[at(from)]; ++i) {
            require(out[begin_of(counts, from) + i] == element<int>(from, i), "gather by counts");
          }
        }
        Elements<int> back(own.size());
        scatter(comm, std::span<const int>(out.span()), back.span(), counts, root, kTwoLevel);
        require_elements(
            back, [&](std::size_t i) { return own[i]; }, "scatter by counts");
      }
    });
  }
}

TEST_CASE("all_gather and reduce_scatter in two levels", "[collectives][two_level]") {
  for (const Table& hosts : kInOrder) {
    run_on_hosts(hosts, [](Communicator& comm) {
      const int size = comm.size();
      const int rank = comm.rank();
      for (const std::size_t count : {0, 1, 9, 5001}) {
        const auto own = input_of<int>(rank, count);
        const auto collected = [&](std::size_t i) { return element<int>(static_cast<int>(i / count), i % count); };
        Elements<int> out(count * at(size));
        all_gather(comm, own.span(), out.span(), kTwoLevel);
        require_elements(out, collected, "all_gather");
        Elements<int> inout(count * at(size));
        for (std::size_t i = 0; i < count; ++i) inout[at(rank) * count + i] = own[i];
        all_gather(comm, inout.span(), kTwoLevel);
        require_elements(inout, collected, "all_gather in place");

        const auto mean = [&](std::size_t i) { return reduced<float>(size, at(rank) * count + i, avg); };
        const auto in = input_of<float>(rank, count * at(size));
        Elements<float> block(count);
        reduce_scatter(comm, in.span(), block.span(), avg, kTwoLevel);
        require_elements(block, mean, "reduce_scatter");
        auto both = input_of<float>(rank, count * at(size));
        reduce_scatter(comm, both.span(), avg, kTwoLevel);
        for (std::size_t i = 0; i < count; ++i)
          require(both[at(rank) * count + i] == mean(i), "reduce_scatter in place");
      }
      const auto counts = uneven(size, 300);
      const auto own = matrices(rank, counts[at(rank)]);
      std::vector<Matrix> all(begin_of(counts, size));
      all_gather(comm, std::span(own), std::span(all), counts, kTwoLevel);
      for (int from = 0; from < size; ++from) {
        for (std::size_t i = 0; i < counts[at(from)]; ++i) {
          require(all[begin_of(counts, from) + i] == matrix_of(from, i), "all_gather by counts");
        }
      }
      const auto in = matrices(rank, all.size());
      std::vector<Matrix> block(own.size());
      reduce_scatter(comm, std::span(in), std::span(block), counts, multiply, kTwoLevel);
      for (std::size_t i = 0; i < block.size(); ++i) {
        require(block[i] == product(size, begin_of(counts, rank) + i), "reduce_scatter by counts");
      }
    });
  }
}

TEST_CASE("all_to_all in two levels, of hosts with as many ranks each", "[collectives][two_level]") {
  for (const Table& hosts : {Table{0, 0, 1, 1}, Table{0, 0, 0, 3, 3, 3}, Table{0, 0, 2, 2, 4, 4}}) {
    run_on_hosts(hosts, [](Communicator& comm) {
      const std::size_t size = at(comm.size());
      for (const std::size_t count : {0, 1, 7, 20'001}) {
        const auto wanted = [&](std::size_t i) {
          return element<int>(static_cast<int>(i / count), at(comm.rank()) * count + i % count);
        };
        const auto in = input_of<int>(comm.rank(), size * count);
        Elements<int> out(size * count);
        all_to_all(comm, in.span(), out.span(), kTwoLevel);
        require_elements(out, wanted, "all_to_all of " + std::to_string(count));
        auto inout = input_of<int>(comm.rank(), size * count);
        all_to_all(comm, inout.span(), kTwoLevel);
        require_elements(inout, wanted, "all_to_all in place of " + std::to_string(count));
      }
    });
  }
}

TEST_CASE("nobody leaves a barrier in two levels before everybody has come", "[collectives][two_level]") {
  for (const Table& hosts : every_table()) {
    std::atomic<int> arrived{0};
    run_on_hosts(hosts, [&](Communicator& comm) {
      for (int round = 1; round <= rounds(20); ++round) {
        ++arrived;
        barrier(comm, kTwoLevel);
        require(arrived.load() >= round * comm.size(), "left the barrier early");
        ibarrier(comm, kTwoLevel).wait();
      }
    });
  }
}

TEST_CASE("all ranks on several hosts get the same bits, in every run, whatever the timing",
          "[collectives][two_level]") {
  for (const std::size_t count : {257, 80'003}) {
    std::set<std::vector<float>> seen;
    for (int job = 0; job < 2; ++job) {
      std::vector<std::vector<float>> sums(7);
      run_on_hosts({0, 1, 1, 0, 0, 1, 6}, [&](Communicator& comm) {
        std::minstd_rand delays(static_cast<unsigned>(comm.rank() + comm.size() * job + 1));
        std::vector<float>& first = sums[at(comm.rank())];
        for (int run = 0; run < rounds(20); ++run) {
          std::vector<float> data(count);
          for (std::size_t i = 0; i < count; ++i) data[i] = 1.0F / static_cast<float>(i + 3 * at(comm.rank()) + 1);
          dawdle(delays);
          all_reduce(comm, std::span(data), sum, kTwoLevel);
          if (run == 0) first = data;
          require(data == first, "other bits in another run");
        }
      });
      seen.insert(sums.begin(), sums.end());
    }
    CHECK(seen.size() == 1);
  }
}
