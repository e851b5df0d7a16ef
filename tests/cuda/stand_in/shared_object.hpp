#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "transport/descriptor.hpp"

namespace rondo::stand_in {

/// Memory that other processes of the same user find by a handle of plain bytes, and that is gone with the last process
/// which has it, however that ends: a memfd, without any name, reached through /proc. Whoever has found one holds a
/// lock on it as long as it does, which the kernel takes away when the process dies: so its owner can tell.
class SharedObject {
 public:
  /// What travels. Fits the handles of the driver.
  struct Handle {
    pid_t process = -1;
    int descriptor = -1;
    std::uint64_t word = 0;  ///< that of the object: processes and descriptors are numbered anew
    std::uint64_t bytes = 0;
  };

  SharedObject() = default;
  static SharedObject create(std::size_t bytes);
  /// The object of another process; an empty one when there is none such (any more).
  static SharedObject find(const Handle& handle);

  Handle handle() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return static_cast<bool>(descriptor_); }

  /// Maps it, at this address when one is given. The mapping is the caller's to remove.
  void* map(void* at) const;
  /// Whether another process has found it and holds it still.
  bool held_elsewhere() const;

 private:
  detail::Descriptor descriptor_;
  Handle handle_;
};

}  // namespace rondo::stand_in
