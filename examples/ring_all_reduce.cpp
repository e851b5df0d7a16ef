// The all_reduce of the tutorial, written by hand out of isend and irecv, and what it takes to make it good:
//
//   1. The whole tensor goes round the ring, and every rank adds what comes by: size - 1 steps, a whole
//   tensor in each.
//   2. The tensor is cut into chunks, one for each rank. In size - 1 steps the chunks go round and are added
//   up, so that
//      each rank ends with one chunk of the result; in size - 1 more steps the finished chunks go round. Each
//      step moves one chunk: for four ranks half of the bytes, for many ranks two tensors instead of size
//      - 1.
//   3. rondo::all_reduce.
//
//     rondo-run -n 4 ring_all_reduce --count 1000000

#include <algorithm>
#include <chrono>
#include <functional>
#include <span>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <rondo/rondo.hpp>

namespace {

void add(std::span<const float> from, std::span<float> to) {
  std::transform(from.begin(), from.end(), to.begin(), to.begin(), std::plus());
}

/// One step of the ring: `out` goes to the next rank while `in` comes from the previous one.
void step(rondo::Communicator& world, std::span<const float> out, std::span<float> in) {
  const int size = world.size();
  auto arriving = world.irecv(in, (world.rank() + size - 1) % size);
  auto leaving = world.isend(out, (world.rank() + 1) % size);
  arriving.wait();
  leaving.wait();
}

void all_reduce_whole(rondo::Communicator& world, std::span<float> tensor) {
  std::vector<float> passing(tensor.begin(), tensor.end());
  std::vector<float> next(tensor.size());
  for (int i = 0; i < world.size() - 1; ++i) {
    step(world, std::span<const float>(passing), std::span(next));
    add(next, tensor);
    std::swap(passing, next);
  }
}

void all_reduce_chunks(rondo::Communicator& world, std::span<float> tensor) {
  const int size = world.size();
  const int rank = world.rank();
  // Chunk numbers go round as the ring does; the chunks differ by at most one element.
  const auto chunk = [&](int number) {
    const auto i = static_cast<std::size_t>((number + size) % size);
    const auto n = static_cast<std::size_t>(size);
    const auto begin = tensor.size() * i / n;
    return tensor.subspan(begin, tensor.size() * (i + 1) / n - begin);
  };

  // Every rank starts with its own chunk; what comes is one chunk further back, and takes on this rank's
  // numbers.
  std::vector<float> arrived(tensor.size() / static_cast<std::size_t>(size) + 1);
  for (int i = 0; i < size - 1; ++i) {
    const auto mine = chunk(rank - i - 1);
    const auto in = std::span(arrived).first(mine.size());
    step(world, chunk(rank - i), in);
    add(in, mine);
  }
  // Now the chunk after the own one is complete here; the complete ones go round.
  for (int i = 0; i < size - 1; ++i) step(world, chunk(rank + 1 - i), chunk(rank - i));
}

using AllReduce = std::function<void(rondo::Communicator&, std::span<float>)>;

/// The median over some runs of the time that the slowest rank needs, in microseconds.
double time_of(rondo::Communicator& world, const AllReduce& all_reduce, std::span<const float> tensor) {
  std::vector<double> times;
  for (int run = 0; run < 11; ++run) {
    std::vector<float> copy(tensor.begin(), tensor.end());
    rondo::barrier(world);
    const auto start = std::chrono::steady_clock::now();
    all_reduce(world, copy);
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  rondo::all_reduce(world, std::span(times), rondo::max);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t count = 1 << 18;
  CLI::App app{"Ring all_reduce by hand, compared with rondo's own."};
  app.add_option("--count", count, "floats in the tensor")
      ->check(CLI::Range(std::size_t{0}, std::size_t{1} << 32))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  auto world = rondo::init();
  // Small whole numbers: their sums are exact in whatever order they are added.
  std::vector<float> tensor(count);
  for (std::size_t i = 0; i < count; ++i)
    tensor[i] = static_cast<float>(i % 100 + static_cast<std::size_t>(world.rank()));

  auto wanted = tensor;
  rondo::all_reduce(world, std::span(wanted), rondo::sum);

  if (world.rank() == 0) fmt::print("all_reduce of {} floats over {} ranks\n", count, world.size());
  const auto compare = [&](const char* name, const AllReduce& all_reduce) {
    auto result = tensor;
    all_reduce(world, result);
    std::vector<int> equal{result == wanted};
    rondo::all_reduce(world, std::span(equal), rondo::min);
    const double time = time_of(world, all_reduce, tensor);
    if (world.rank() == 0) fmt::print("{:24} {:8.0f} us  {}\n", name, time, equal[0] ? "equal" : "DIFFERENT");
    return equal[0] == 1;
  };
  const bool whole = compare("by hand, whole tensor", all_reduce_whole);
  const bool chunks = compare("by hand, in chunks", all_reduce_chunks);
  compare("rondo::all_reduce", [](auto& comm, std::span<float> data) { rondo::all_reduce(comm, data, rondo::sum); });
  return whole && chunks ? 0 : 1;
}
