// all_reduce in place by kernels alone, of buffers that all processes map: `direct`, each rank reduces its chunk of all
// of them, and `leader`, one does all.

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/probe/device_work.hpp"
#include "bench/probe/item.hpp"
#include "bench/probe/probe_kernels.hpp"
#include "cuda/staging.hpp"

namespace rondo::bench {
namespace {

class AllReduce {
 public:
  AllReduce(const Part& part, std::size_t bytes)
      : part_(part), kernels_(part), probe_kernels_(part), own_(part, bytes) {
    own_.expose();
    part.barrier();
    for (int rank = 0; rank < part.size; ++rank) {
      if (rank != part.rank) mapped_.push_back(std::make_unique<MappedBuffer>(part, rank));
      buffers_.push_back(rank == part.rank ? own_.address() : mapped_.back()->address());
    }
  }
  /// All at once: whoever maps memory closes it before it is freed.
  void close() {
    mapped_.clear();
    part_.barrier();
  }

  int multiprocessors() const { return kernels_.multiprocessors(); }

  /// The library's kernel.
  cuda::FunctionHandle kernel() const { return kernels_.sum(); }
  /// One in which each thread has so many packs of an input in flight.
  cuda::FunctionHandle unrolled(unsigned times) const {
    return probe_kernels_.find(fmt::format("rondo_probe_sum_unroll_{}", times).c_str());
  }

  /// Queues this rank's part in the reduction of `bytes` of each buffer.
  void queue(cuda::FunctionHandle kernel, bool direct, std::size_t bytes, unsigned blocks) const {
    if (!direct && part_.rank != 0) return;
    const std::size_t chunk = direct ? bytes / static_cast<std::size_t>(part_.size) : bytes;
    const std::size_t offset = direct ? chunk * static_cast<std::size_t>(part_.rank) : 0;
    cuda::DirectArguments arguments{};
    for (std::size_t rank = 0; rank < buffers_.size(); ++rank) {
      arguments.inputs[rank] = device_pointer(buffers_[rank] + offset);
      arguments.outputs[rank] = device_pointer(buffers_[rank] + offset);
    }
    arguments.input_count = static_cast<unsigned>(part_.size);
    arguments.output_count = arguments.input_count;
    arguments.count = chunk / sizeof(float);
    arguments.ranks = part_.size;
    part_.launch(kernel, arguments, blocks, Kernels::kThreads);
  }

  /// Whether the sum is the sum, in this rank's buffer.
  void check(cuda::FunctionHandle kernel, bool direct, std::size_t bytes, unsigned blocks) const {
    constexpr unsigned char kByte = 0x3f;
    own_.fill(kByte);
    part_.barrier();
    queue(kernel, direct, bytes, blocks);
    part_.stream.synchronize();
    part_.barrier();
    float element = 0;
    std::memset(&element, kByte, sizeof(element));
    float sum = element;
    for (int rank = 1; rank < part_.size; ++rank) sum += element;
    if (const std::size_t wrong = wrong_elements(bytes, sum); wrong > 0)
      throw std::runtime_error(fmt::format("{} of {} elements are wrong", wrong, bytes / sizeof(float)));
    part_.barrier();
    own_.fill(0);  // sums of sums would grow beyond the type
    part_.barrier();
  }

 private:
  std::size_t wrong_elements(std::size_t bytes, float wanted) const {
    cuda::Staging staging(part_.context);
    const auto block = staging.take(bytes);
    part_.driver().must(part_.driver().cuMemcpyDtoHAsync, static_cast<void*>(block.data()), own_.address(), bytes,
                        part_.stream.handle());
    part_.stream.synchronize();
    const auto* const elements = reinterpret_cast<const float*>(block.data());
    return static_cast<std::size_t>(
        std::count_if(elements, elements + bytes / sizeof(float), [&](float got) { return got != wanted; }));
  }

  const Part& part_;
  Kernels kernels_;
  ProbeKernels probe_kernels_;
  DeviceBuffer own_;
  std::vector<std::unique_ptr<MappedBuffer>> mapped_;
  std::vector<cuda::Address> buffers_;
};

/// What is measured of a reduction.
struct Shot {
  std::string kernel;  ///< what the figure calls it
  cuda::FunctionHandle function = nullptr;
  bool direct = false;
  std::size_t bytes = 0;
  unsigned blocks = 0;
  int in_a_row = 1;
};

/// Seconds of one, from when all begin until the last has ended. The same on all ranks.
double time_one(const Part& part, const AllReduce& reduce, const Shot& shot) {
  part.barrier();
  const auto begin = Part::Clock::now();
  for (int i = 0; i < shot.in_a_row; ++i) reduce.queue(shot.function, shot.direct, shot.bytes, shot.blocks);
  part.stream.synchronize();
  part.barrier();
  return seconds_since(begin) / shot.in_a_row;
}

void measure_one(const Part& part, const AllReduce& reduce, const Shot& shot) {
  std::vector<double> seconds;
  time_one(part, reduce, shot);
  for (int i = 0; i < part.pick(12, 2); ++i) seconds.push_back(time_one(part, reduce, shot));
  if (part.rank != 0) return;
  const std::string what =
      fmt::format("{}, {}{} blocks, {}", shot.direct ? "direct" : "leader", shot.kernel, shot.blocks,
                  shot.in_a_row > 1 ? fmt::format("{} in a row", shot.in_a_row) : "one");
  part.report(measured(what, shot.bytes, "GB/s", gigabytes_per_second(seconds, static_cast<double>(shot.bytes))));
}

}  // namespace

void answer_reductions(const Part& part) {
  const std::size_t most = part.pick(256 * kMiB, kMiB / 16);
  AllReduce reduce(part, most);
  const auto multiprocessors = static_cast<unsigned>(reduce.multiprocessors());
  const unsigned usual = 2 * multiprocessors;
  for (const bool direct : {true, false}) {
    reduce.check(reduce.kernel(), direct, most, usual);
    for (const unsigned unroll : {4U, 8U}) {
      const cuda::FunctionHandle kernel = reduce.unrolled(unroll);
      reduce.check(kernel, direct, most, usual);
      for (const unsigned halves : {1U, 2U, 4U, 8U}) {
        const unsigned blocks = std::max(halves * multiprocessors / 2, 1U);
        measure_one(part, reduce, {fmt::format("unroll {}, ", unroll), kernel, direct, most, blocks, 4});
      }
    }
    for (std::size_t bytes = part.pick(kMiB / 16, most); bytes <= most; bytes *= 16)
      measure_one(part, reduce, {"", reduce.kernel(), direct, bytes, usual, 1});
  }
  reduce.close();
}

}  // namespace rondo::bench
