#include "tests/cuda/stand_in/shared_object.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>

#include "tests/cuda/stand_in/machine.hpp"

namespace rondo::stand_in {
namespace {

/// The object's word stands behind its bytes, on a page of its own.
off_t word_offset(std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  return static_cast<off_t>((bytes + kPage - 1) / kPage * kPage);
}

}  // namespace

SharedObject SharedObject::create(std::size_t bytes) {
  SharedObject object;
  object.descriptor_ = detail::Descriptor(::memfd_create("stand-in", MFD_CLOEXEC));
  if (!object.descriptor_) mistake("memfd_create failed");
  object.handle_ = {
      .process = ::getpid(), .descriptor = object.descriptor_.get(), .word = unique_word(), .bytes = bytes};
  const std::uint64_t word = object.handle_.word;
  if (::pwrite(object.descriptor_.get(), &word, sizeof(word), word_offset(bytes)) != sizeof(word)) {
    mistake("no memory for a shared object");
  }
  return object;
}

SharedObject SharedObject::find(const Handle& handle) {
  SharedObject object;
  detail::Descriptor found(
      ::open(fmt::format("/proc/{}/fd/{}", handle.process, handle.descriptor).c_str(), O_RDWR | O_CLOEXEC));
  if (!found) return object;
  std::uint64_t word = 0;
  if (::pread(found.get(), &word, sizeof(word), word_offset(handle.bytes)) != sizeof(word)) return object;
  if (word != handle.word || ::flock(found.get(), LOCK_SH) != 0) return object;
  object.descriptor_ = std::move(found);
  object.handle_ = handle;
  return object;
}

void* SharedObject::map(void* at) const {
  const int fixed = at == nullptr ? 0 : MAP_FIXED;
  void* const mapped = ::mmap(at, static_cast<std::size_t>(word_offset(handle_.bytes)), PROT_READ | PROT_WRITE,
                              MAP_SHARED | fixed, descriptor_.get(), 0);
  if (mapped == MAP_FAILED) mistake("mapping a shared object failed");
  return mapped;
}

bool SharedObject::held_elsewhere() const {
  if (::flock(descriptor_.get(), LOCK_EX | LOCK_NB) != 0) return true;
  ::flock(descriptor_.get(), LOCK_UN);
  return false;
}

}  // namespace rondo::stand_in
