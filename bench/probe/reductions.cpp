// all_reduce in place by kernels alone, of buffers that all processes map: `direct`, each rank reduces its chunk of all
// of them, and `leader`, one does all.

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>

#include <fmt/format.h>

#include "bench/probe/device_work.hpp"
#include "bench/probe/item.hpp"
#include "cuda/staging.hpp"

namespace rondo::bench {
namespace {

class AllReduce {
 public:
  AllReduce(const Part& part, std::size_t bytes) : part_(part), kernels_(part), own_(part, bytes) {
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

  /// Queues this rank's part in the reduction of `bytes` of each buffer.
  void queue(bool direct, std::size_t bytes, unsigned blocks) const {
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
    kernels_.launch(arguments, blocks);
  }

  /// Whether the sum is the sum, in this rank's buffer.
  void check(bool direct, std::size_t bytes, unsigned blocks) const {
    constexpr unsigned char kByte = 0x3f;
    own_.fill(kByte);
    part_.barrier();
    queue(direct, bytes, blocks);
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
  DeviceBuffer own_;
  std::vector<std::unique_ptr<MappedBuffer>> mapped_;
  std::vector<cuda::Address> buffers_;
};

/// Seconds of one, from when all begin until the last has ended; as many as queued in a row. The same on all ranks.
double time_one(const Part& part, const AllReduce& reduce, bool direct, std::size_t bytes, unsigned blocks,
                int in_a_row) {
  part.barrier();
  const auto begin = Part::Clock::now();
  for (int i = 0; i < in_a_row; ++i) reduce.queue(direct, bytes, blocks);
  part.stream.synchronize();
  part.barrier();
  return seconds_since(begin) / in_a_row;
}

void measure_one(const Part& part, const AllReduce& reduce, bool direct, std::size_t bytes, unsigned blocks,
                 int in_a_row) {
  std::vector<double> seconds;
  time_one(part, reduce, direct, bytes, blocks, in_a_row);
  for (int i = 0; i < part.pick(12, 2); ++i) seconds.push_back(time_one(part, reduce, direct, bytes, blocks, in_a_row));
  if (part.rank != 0) return;
  const std::string what = fmt::format("{}, {} blocks, {}", direct ? "direct" : "leader", blocks,
                                       in_a_row > 1 ? fmt::format("{} in a row", in_a_row) : "one");
  part.report(measured(what, bytes, "GB/s", gigabytes_per_second(seconds, static_cast<double>(bytes))));
}

}  // namespace

void answer_reductions(const Part& part) {
  const std::size_t most = part.pick(256 * kMiB, kMiB / 16);
  AllReduce reduce(part, most);
  const auto multiprocessors = static_cast<unsigned>(reduce.multiprocessors());
  for (const bool direct : {true, false}) {
    reduce.check(direct, most, 2 * multiprocessors);
    for (const unsigned halves : {1U, 2U, 4U, 8U})
      measure_one(part, reduce, direct, most, std::max(halves * multiprocessors / 2, 1U), 4);
    for (std::size_t bytes = part.pick(kMiB / 16, most); bytes <= most; bytes *= 16)
      measure_one(part, reduce, direct, bytes, 2 * multiprocessors, 1);
  }
  reduce.close();
}

}  // namespace rondo::bench
