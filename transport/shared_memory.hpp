#pragma once

#include <cstddef>
#include <span>

#include "transport/descriptor.hpp"

namespace rondo::detail {

/// All that this machine has, with its swap space: nobody can be given more.
std::size_t memory_of_machine() noexcept;
/// Whether the cgroups of this process leave it so much: who is given more is ended, without a word.
bool cgroups_leave(std::size_t bytes);

/// Memory that several processes map. It has no name anywhere: whoever shall map it is sent its descriptor, which also
/// proves that both are on one host. It cannot shrink, so nobody faults on what another did, and its pages exist from
/// the start, so nobody faults for want of memory either.
class SharedMemory {
 public:
  SharedMemory() = default;
  /// New memory of so many bytes, zeroed. Throws std::system_error: the system has none to give.
  static SharedMemory create(std::size_t bytes);
  /// Memory that another process created. Throws std::system_error, also when it is not of this size, or may shrink.
  static SharedMemory map(Descriptor descriptor, std::size_t bytes);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  std::byte* data() const noexcept { return bytes_.data(); }
  std::size_t size() const noexcept { return bytes_.size(); }
  explicit operator bool() const noexcept { return !bytes_.empty(); }

  /// To be sent to others. The memory lives as long as anybody maps it.
  int descriptor() const noexcept { return descriptor_.get(); }
  /// Nobody else will be sent it.
  void close_descriptor() noexcept { descriptor_.reset(); }

 private:
  SharedMemory(Descriptor descriptor, std::size_t bytes);

  Descriptor descriptor_;
  std::span<std::byte> bytes_;
};

}  // namespace rondo::detail
