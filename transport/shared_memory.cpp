#include "transport/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>
#include <utility>

#include "transport/cgroup.hpp"

namespace rondo::detail {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

[[noreturn]] void fail(int error, const char* what) { throw std::system_error(error, std::generic_category(), what); }

// Memory without a name counts as a file. Asked first, because the kernel's own answer is SIGXFSZ, which kills.
void check_file_size_limit(std::size_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) fail(EFBIG, "limit of file sizes (ulimit -f)");
}

}  // namespace

std::size_t memory_of_machine() noexcept {
  struct sysinfo machine {};
  if (::sysinfo(&machine) != 0) return std::numeric_limits<std::size_t>::max();
  return (static_cast<std::size_t>(machine.totalram) + machine.totalswap) * machine.mem_unit;
}

bool cgroups_leave(std::size_t bytes) {
  static const CgroupMemory own(kCgroups, own_cgroup(""), own_cgroup("memory"));
  struct sysinfo machine {};
  const bool known = ::sysinfo(&machine) == 0;
  return own.leave(bytes, known ? static_cast<std::size_t>(machine.freeswap) * machine.mem_unit : 0);
}

SharedMemory SharedMemory::create(std::size_t bytes) {
  check_file_size_limit(bytes);
  // Or the kernel would give all that there is, and then end some process.
  if (bytes > memory_of_machine()) fail(ENOMEM, "more than this machine has");
  if (!cgroups_leave(bytes)) fail(ENOMEM, "more than the memory limit of its cgroup leaves");
  Descriptor descriptor(::memfd_create("rondo", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor) fail(errno, "memfd_create");
  // Unlike a first touch, which would kill the process, this says when there is no memory.
  // Piece by piece: what a signal interrupts the system gives back, and a profiler's come every millisecond.
  constexpr std::size_t kPiece = std::size_t{256} << 10;
  for (std::size_t at = 0; at < bytes;) {
    const std::size_t piece = std::min(kPiece, bytes - at);
    const int refused = ::posix_fallocate(descriptor.get(), static_cast<off_t>(at), static_cast<off_t>(piece));
    if (refused == 0) at += piece;
    if (refused != 0 && refused != EINTR) fail(refused, "posix_fallocate");
  }
  if (::fcntl(descriptor.get(), F_ADD_SEALS, kSeals) != 0) fail(errno, "sealing shared memory");
  return SharedMemory(std::move(descriptor), bytes);
}

SharedMemory SharedMemory::map(Descriptor descriptor, std::size_t bytes) {
  // So the system passes one on where there is no room for it.
  if (!descriptor) fail(EMFILE, "its descriptor");
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) fail(errno, "shared memory that was offered");
  const int seals = ::fcntl(descriptor.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || status.st_size < 0 ||
      static_cast<std::size_t>(status.st_size) != bytes) {
    fail(EINVAL, "shared memory that was offered is of another size, or may shrink");
  }
  return SharedMemory(std::move(descriptor), bytes);
}

SharedMemory::SharedMemory(Descriptor descriptor, std::size_t bytes) : descriptor_(std::move(descriptor)) {
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor_.get(), 0);
  if (mapped == MAP_FAILED) fail(errno, "mapping shared memory");
  bytes_ = {static_cast<std::byte*>(mapped), bytes};
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : descriptor_(std::move(other.descriptor_)), bytes_(std::exchange(other.bytes_, {})) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace rondo::detail
