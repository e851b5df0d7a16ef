#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rondo::detail {

/// A long copy out of another process that both have a hand in: who wants the bytes reads parts from their front on,
/// and whose they are writes parts from their back, if it comes by before all are claimed. Two cores copy in little
/// more than half the time of one; and who computes meanwhile is not waited for.
///
/// A reader that ends a copy while the owner is about a part, having waited as long as it would, cannot stop it: that
/// part is written late, to where it was to go, whatever is there by then. It counts for no other copy (of the last
/// 65536). So no copy to the same place, nor any other use of it, is safe until the owner has been heard of.
struct JointCopy {
  /// What both map, zero at first.
  struct Shared {
    alignas(128) std::atomic<std::uint64_t> claims;   ///< which copy; how much is claimed of its front, of its back
    alignas(128) std::atomic<std::uint64_t> written;  ///< which copy; of the latter, what is there; and `kGaveUp`
  };
  /// What the reader tells the owner.
  struct Request {
    std::uint64_t number = 0;
    std::uint64_t from = 0;
    std::uint64_t into = 0;
    std::uint64_t bytes = 0;
  };
  static constexpr std::uint64_t kGaveUp = std::uint64_t{1} << 47;
  static constexpr std::uint64_t kMostBytes = ((std::uint64_t{1} << 24) - 1) * 4096;

  /// The owner's part: writes what nobody has claimed yet.
  static void help(Shared& shared, pid_t reader, const Request& request);
};

/// The reader's part. One copy after the other: the next begins when `state` has said how this one ended.
class JointRead {
 public:
  enum class State : std::uint8_t { failed, complete, awaits_owner };

  /// `number` is another one than that of the copy before.
  JointRead(JointCopy::Shared& shared, std::uint64_t number, std::uint64_t address, std::span<std::byte> into);

  const JointCopy::Request& request() const noexcept { return request_; }
  /// Reads all that the owner does not claim. False: it cannot; the owner claims no more all the same.
  bool read(pid_t owner);
  /// After `read`: whether what the owner claimed is there. What it gave up is read after all.
  State state(pid_t owner);

 private:
  bool read(pid_t owner, std::uint64_t unit, std::uint64_t units) const;

  JointCopy::Shared& shared_;
  JointCopy::Request request_;
  std::span<std::byte> into_;
};

}  // namespace rondo::detail
