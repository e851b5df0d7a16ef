// Non-blocking point-to-point communication. `isend` and `irecv` start a message and return a Work at once;
// until its `wait` returns, what is sent must not be changed and what is received is not there. What is
// computed in between costs no extra time.
//
//     rondo-run -n 4 nonblocking_send_recv

#include <array>
#include <span>
#include <vector>

#include <fmt/format.h>

#include <rondo/rondo.hpp>

namespace {

/// Some arithmetic while messages are on their way: 1/1 + 1/4 + 1/9 + ...
double compute() {
  double sum = 0;
  for (double i = 1; i < 1e6; ++i) sum += 1 / (i * i);
  return sum;
}

}  // namespace

int main() {
  auto world = rondo::init();
  const int rank = world.rank();
  const int size = world.size();
  const int next = (rank + 1) % size;
  const int previous = (rank + size - 1) % size;

  // A large tensor to the next rank, and one from the previous, while everybody computes.
  const std::vector<float> mine(1 << 20, static_cast<float>(rank));
  std::vector<float> theirs(mine.size());
  auto arriving = world.irecv(std::span(theirs), previous);
  auto leaving = world.isend(std::span(mine), next);
  const double sum = compute();
  arriving.wait();
  leaving.wait();
  fmt::print("rank {} computed {:.4f} and has data {}\n", rank, sum, theirs.back());

  // Both neighbours at once. With two ranks both are the same one: tags tell its messages apart.
  const rondo::Tag upwards{1};
  const rondo::Tag downwards{2};
  const std::vector<int> own{10 * rank};
  std::vector<int> below(1);
  std::vector<int> above(1);
  std::array neighbours{
      world.irecv(std::span(below), previous, upwards),
      world.irecv(std::span(above), next, downwards),
      world.isend(std::span(own), next, upwards),
      world.isend(std::span(own), previous, downwards),
  };
  rondo::wait_all(neighbours);
  fmt::print("rank {} has {}, between {} and {}\n", rank, own[0], below[0], above[0]);

  // Rank 0 takes what the others send in the order in which it comes. They ask now and then whether it is gone, as long
  // as they have something better to do than to wait.
  if (rank == 0) {
    std::vector<int> squares(static_cast<std::size_t>(size));
    std::vector<rondo::Work> coming;
    for (int from = 1; from < size; ++from) {
      coming.push_back(world.irecv(std::span(squares).subspan(static_cast<std::size_t>(from), 1), from));
    }
    int total = 0;
    for (auto i = rondo::wait_any(coming); i < coming.size(); i = rondo::wait_any(coming)) total += squares[i + 1];
    fmt::print("rank 0 got {} squares, {} in all\n", coming.size(), total);
  } else {
    const std::vector<int> square{rank * rank};
    auto sending = world.isend(std::span(square), 0);
    while (!sending.test()) compute();
  }
}
