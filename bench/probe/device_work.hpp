#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include "bench/probe/part.hpp"
#include "cuda/reduction.hpp"

namespace rondo::bench {

inline void* device_pointer(cuda::Address address) { return reinterpret_cast<void*>(address); }

/// "CUDA_SUCCESS (0)"
std::string name_of(const Part& part, cuda::Result result);

/// An allocation, with zeros in it.
class DeviceBuffer {
 public:
  DeviceBuffer(const Part& part, std::size_t bytes);
  ~DeviceBuffer() { free(); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  cuda::Address address() const { return address_; }
  std::size_t bytes() const { return bytes_; }
  /// For others, on the board.
  void expose() const;
  void fill(unsigned char value) const;
  cuda::Result free();

 private:
  const Part& part_;
  std::size_t bytes_;
  cuda::Address address_ = 0;
};

/// What another rank has exposed.
class MappedBuffer {
 public:
  MappedBuffer(const Part& part, int owner);
  ~MappedBuffer() { close(); }
  MappedBuffer(const MappedBuffer&) = delete;
  MappedBuffer& operator=(const MappedBuffer&) = delete;

  cuda::Address address() const { return address_; }
  cuda::Result close();

 private:
  const Part& part_;
  cuda::Address address_ = 0;
};

/// A place in the part's stream that the host can see passed. Of this process only.
class Mark {
 public:
  explicit Mark(const Part& part);
  ~Mark();
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

  void record() const;
  bool passed() const;
  /// By the device's clock, once both are passed.
  double seconds_until(const Mark& later) const;

 private:
  const Part& part_;
  cuda::EventHandle event_ = nullptr;
};

/// The kernel that an all_reduce by sum of floats runs, with as many blocks and threads as one likes.
class Kernels {
 public:
  static constexpr unsigned kThreads = 512;

  explicit Kernels(const Part& part);

  void launch(const cuda::DirectArguments& arguments, unsigned blocks, unsigned threads = kThreads) const;
  /// One block that does next to nothing.
  void launch_small() const;
  cuda::FunctionHandle sum() const { return sum_; }
  int multiprocessors() const { return multiprocessors_; }

 private:
  const Part& part_;
  cuda::Reductions reductions_;
  cuda::FunctionHandle sum_;
  int multiprocessors_ = 0;
  DeviceBuffer small_;
};

/// Kernels that keep a device busy for a time: one thread that reads one buffer again and again. Made while no other
/// process computes, for it looks how long that takes.
class LongKernel {
 public:
  LongKernel(const Part& part, const Kernels& kernels);

  /// About so long, in kernels of a second or more where the device is not too fast for its buffer.
  void launch(double seconds) const;

 private:
  void launch_for(std::size_t elements) const;

  const Kernels& kernels_;
  DeviceBuffer buffer_;
  double elements_per_second_ = 0;
};

/// Free memory of the device, in bytes.
std::size_t free_memory(const Part& part);

/// Runs `work` `count` times, after a time that is not counted; seconds of each.
template <typename Work>
std::vector<double> sample(int count, const Work& work) {
  std::vector<double> seconds;
  work();
  for (int i = 0; i < count; ++i) seconds.push_back(timed(work));
  return seconds;
}

/// Seconds as microseconds, each for `parts` things done.
std::vector<double> microseconds(std::vector<double> seconds, double parts = 1);
/// Seconds in which so many bytes were moved as GB/s.
std::vector<double> gigabytes_per_second(std::vector<double> seconds, double bytes);

/// Rank 1 computes while rank 0 looks how its own work goes: `busy_neighbour` on the one, `beside_neighbour` on the
/// other, which does `work` once at least and gives the seconds of each.
void busy_neighbour(const Part& part, const LongKernel& kernel);

template <typename Work>
std::vector<double> beside_neighbour(const Part& part, const Work& work) {
  const auto changes = [&] { return part.place(1).count.load(std::memory_order_acquire); };
  const auto before = changes();
  part.barrier();
  Board::wait_until([&] { return changes() > before; });
  std::vector<double> seconds;
  do {
    seconds.push_back(timed(work));
  } while (changes() == before + 1);
  part.barrier();
  return seconds;
}

}  // namespace rondo::bench
