// Sums in place by kernels alone, of buffers that all processes map: all_reduce by `direct`, where each rank reduces
// its chunk of all of them, and by `leader`, where one does all; and one step of a ring, in which each adds a chunk of
// its left neighbour's to its own.

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

enum class Form { direct, leader, ring_step };

class Sums {
 public:
  Sums(const Part& part, std::size_t bytes) : part_(part), kernels_(part), probe_kernels_(part), own_(part, bytes) {
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

  /// Queues this rank's part of what is done with `bytes` of each buffer.
  void queue(cuda::FunctionHandle kernel, Form form, std::size_t bytes, unsigned blocks) const {
    if (form == Form::leader && part_.rank != 0) return;
    const std::size_t chunk = chunk_of(form, bytes);
    const std::size_t offset = offset_of(form, bytes);
    const cuda::Address own = own_.address();
    const bool by_ring = form == Form::ring_step;
    const auto inputs = by_ring ? std::vector{buffers_[static_cast<std::size_t>(left())], own} : buffers_;
    const auto outputs = by_ring ? std::vector{own} : buffers_;
    cuda::DirectArguments arguments{};
    for (const cuda::Address input : inputs) arguments.inputs[arguments.input_count++] = device_pointer(input + offset);
    for (const cuda::Address output : outputs)
      arguments.outputs[arguments.output_count++] = device_pointer(output + offset);
    arguments.count = chunk / sizeof(float);
    arguments.ranks = part_.size;
    part_.launch(kernel, arguments, blocks, Kernels::kThreads);
  }

  /// Of what a rank does something with.
  std::size_t chunk_of(Form form, std::size_t bytes) const {
    return form == Form::leader ? bytes : bytes / static_cast<std::size_t>(part_.size);
  }

  /// Whether the sum is the sum, in this rank's buffer.
  void check(cuda::FunctionHandle kernel, Form form, std::size_t bytes, unsigned blocks) const {
    own_.fill(byte_of(part_.rank));
    part_.barrier();
    queue(kernel, form, bytes, blocks);
    part_.stream.synchronize();
    part_.barrier();
    float sum = 0;
    for (int rank = 0; rank < part_.size; ++rank) {
      if (form != Form::ring_step || rank == part_.rank || rank == left()) sum += element_of(rank);
    }
    const std::size_t from = form == Form::ring_step ? offset_of(form, bytes) : 0;
    const std::size_t checked = form == Form::ring_step ? chunk_of(form, bytes) : bytes;
    if (const std::size_t wrong = wrong_elements(from, checked, sum); wrong > 0)
      throw std::runtime_error(fmt::format("{} of {} elements are wrong", wrong, checked / sizeof(float)));
    part_.barrier();
    own_.fill(0);  // sums of sums would grow beyond the type
    part_.barrier();
  }

 private:
  int left() const { return (part_.rank + part_.size - 1) % part_.size; }
  /// What is in all bytes of a rank's buffer, and an element of it.
  static unsigned char byte_of(int rank) { return static_cast<unsigned char>(0x3f - rank); }
  static float element_of(int rank) {
    float element = 0;
    std::memset(&element, byte_of(rank), sizeof(element));
    return element;
  }
  /// In a step of a ring none writes where another reads.
  std::size_t offset_of(Form form, std::size_t bytes) const {
    if (form == Form::leader) return 0;
    const int chunk = form == Form::direct ? part_.rank : left();
    return chunk_of(form, bytes) * static_cast<std::size_t>(chunk);
  }

  std::size_t wrong_elements(std::size_t from, std::size_t bytes, float wanted) const {
    cuda::Staging staging(part_.context);
    const auto block = staging.take(bytes);
    part_.driver().must(part_.driver().cuMemcpyDtoHAsync, static_cast<void*>(block.data()), own_.address() + from,
                        bytes, part_.stream.handle());
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
  Form form = Form::direct;
  std::size_t bytes = 0;
  unsigned blocks = 0;
  int in_a_row = 1;
};

const char* name_of(Form form) {
  switch (form) {
    case Form::direct: return "direct";
    case Form::leader: return "leader";
    default: return "ring step, a chunk of each rank";
  }
}

/// Seconds of one, from when all begin until the last has ended. The same on all ranks.
double time_one(const Part& part, const Sums& sums, const Shot& shot) {
  part.barrier();
  const auto begin = Part::Clock::now();
  for (int i = 0; i < shot.in_a_row; ++i) sums.queue(shot.function, shot.form, shot.bytes, shot.blocks);
  part.stream.synchronize();
  part.barrier();
  return seconds_since(begin) / shot.in_a_row;
}

void measure_one(const Part& part, const Sums& sums, const Shot& shot) {
  std::vector<double> seconds;
  time_one(part, sums, shot);
  for (int i = 0; i < part.pick(12, 2); ++i) seconds.push_back(time_one(part, sums, shot));
  if (part.rank != 0) return;
  const std::string what = fmt::format("{}, {}{} blocks, {}", name_of(shot.form), shot.kernel, shot.blocks,
                                       shot.in_a_row > 1 ? fmt::format("{} in a row", shot.in_a_row) : "one");
  const std::size_t bytes = shot.form == Form::ring_step ? sums.chunk_of(shot.form, shot.bytes) : shot.bytes;
  part.report(measured(what, bytes, "GB/s", gigabytes_per_second(seconds, static_cast<double>(bytes))));
}

}  // namespace

void answer_reductions(const Part& part) {
  const std::size_t most = part.pick(256 * kMiB, kMiB / 16);
  Sums sums(part, most);
  const auto multiprocessors = static_cast<unsigned>(sums.multiprocessors());
  const unsigned usual = 2 * multiprocessors;
  for (const Form form : {Form::direct, Form::leader, Form::ring_step}) {
    sums.check(sums.kernel(), form, most, usual);
    for (const unsigned unroll : {4U, 8U}) {
      const cuda::FunctionHandle kernel = sums.unrolled(unroll);
      sums.check(kernel, form, most, usual);
      for (const unsigned halves : {1U, 2U, 4U, 8U}) {
        const unsigned blocks = std::max(halves * multiprocessors / 2, 1U);
        measure_one(part, sums, {fmt::format("unroll {}, ", unroll), kernel, form, most, blocks, 4});
      }
    }
    for (std::size_t bytes = part.pick(kMiB / 16, most); bytes <= most; bytes *= 16)
      measure_one(part, sums, {"", sums.kernel(), form, bytes, usual, 1});
  }
  sums.close();
}

}  // namespace rondo::bench
